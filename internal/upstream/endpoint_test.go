package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// listen is an upstream that answers what a client sends first with a script, and returns what
// that was. Without a script it never answers.
func listen(t *testing.T, script string) (addr string, said func() string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var got strings.Builder
	work.Go(func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		in := bufio.NewReader(nc)
		for range strings.Count(script, "\r\n") {
			header, _ := in.ReadString('\n')
			got.WriteString(header)
			for range 2 * int(header[1]-'0') {
				line, _ := in.ReadString('\n')
				got.WriteString(line)
			}
		}
		_, _ = io.WriteString(nc, script)
		_, _ = io.Copy(io.Discard, in)
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	return l.Addr().String(), func() string {
		_ = l.Close()
		work.Wait()
		return strings.ReplaceAll(got.String(), "\r\n", " ")
	}
}

func TestDialLogsInAndSelectsTheDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		options redis.Options
		script  string
		want    string
	}{
		"as nobody":       {redis.Options{}, "", ""},
		"with a password": {redis.Options{Password: "p"}, "+OK\r\n", "*2 $4 AUTH $1 p "},
		"as a user":       {redis.Options{Username: "u", Password: "p"}, "+OK\r\n", "*3 $4 AUTH $1 u $1 p "},
		"in a database":   {redis.Options{DB: 3}, "+OK\r\n", "*2 $6 SELECT $1 3 "},
		"with all of it":  {redis.Options{Username: "u", Password: "p", DB: 12}, "+OK\r\n+OK\r\n", "*3 $4 AUTH $1 u $1 p *2 $6 SELECT $2 12 "},
	} {
		t.Run(name, func(t *testing.T) {
			addr, said := listen(t, tc.script)
			tc.options.Network, tc.options.Addr = "tcp", addr
			nc, err := (&Endpoint{Options: &tc.options, DialTimeout: 30 * time.Second}).Dial(t.Context(), tc.options.DB, 2)
			if err != nil {
				t.Fatal(err)
			}
			_ = nc.Close()
			if got := said(); got != tc.want {
				t.Errorf("sent %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDialAsksForRESP3WhenItIsTheClients(t *testing.T) {
	addr, said := listen(t, "_\r\n")
	e := &Endpoint{Options: &redis.Options{Network: "tcp", Addr: addr}, DialTimeout: 30 * time.Second}
	nc, err := e.Dial(t.Context(), 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.Close()
	if got, want := said(), "*2 $5 HELLO $1 3 "; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

func TestALoginThatIsRefusedSaysWhy(t *testing.T) {
	addr, _ := listen(t, "-WRONGPASS invalid username-password pair\r\n")
	e := &Endpoint{Options: &redis.Options{Network: "tcp", Addr: addr, Password: "secret"}, DialTimeout: 30 * time.Second}
	nc, err := e.Dial(t.Context(), 0, 2)
	if err == nil {
		_ = nc.Close()
		t.Fatal("it was let in")
	}
	if text := err.Error(); !strings.Contains(text, "WRONGPASS invalid username-password pair") || strings.Contains(text, "secret") {
		t.Errorf("%v", err)
	}
}

func TestAnUpstreamThatDoesNotAnswerTheLoginIsGivenUp(t *testing.T) {
	addr, _ := listen(t, "")
	e := &Endpoint{Options: &redis.Options{Network: "tcp", Addr: addr}, DialTimeout: 20 * time.Millisecond}
	if nc, err := e.Dial(t.Context(), 1, 2); err == nil {
		_ = nc.Close()
		t.Fatal("it was let in")
	}
}

func TestAnUpstreamThatIsNotThereIsAnError(t *testing.T) {
	addr, said := listen(t, "")
	_ = said() // it closes
	e := &Endpoint{Options: &redis.Options{Network: "tcp", Addr: addr}, DialTimeout: 30 * time.Second}
	nc, err := e.Dial(t.Context(), 0, 2)
	if err == nil {
		_ = nc.Close()
		t.Fatal("somebody is there")
	}
	if !strings.Contains(err.Error(), "connect to the upstream") {
		t.Errorf("%v", err)
	}
}

func TestManyWhoConnectAtOnceTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialing, answered atomic.Int64
		goOn := make(chan struct{})
		e := &Endpoint{DialTimeout: time.Minute, Options: &redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
			dialing.Add(1)
			<-goOn
			answered.Add(1)
			here, _ := net.Pipe()
			return here, nil
		}}}
		const clients = 3 * dialsMost
		errs := make(chan error, clients)
		for range clients {
			go func() {
				nc, err := e.Dial(t.Context(), 0, 2)
				if err == nil {
					_ = nc.Close()
				}
				errs <- err
			}()
		}
		synctest.Wait()
		if n := dialing.Load(); n != dialsMost {
			t.Errorf("%d are dialing at once, want %d", n, dialsMost)
		}
		close(goOn)
		for range clients {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if n := answered.Load(); n != clients {
			t.Errorf("%d have connected, want %d", n, clients)
		}
	})
}

func TestWhoWaitsForATurnWaitsNoLongerThanADialTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Endpoint{DialTimeout: time.Minute, Options: &redis.Options{Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}}
		began := time.Now()
		var all sync.WaitGroup
		for range 3 * dialsMost {
			all.Go(func() {
				if _, err := e.Dial(t.Context(), 0, 2); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the last one has waited for %v", took)
		}
	})
}
