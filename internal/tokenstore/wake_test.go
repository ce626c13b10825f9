package tokenstore_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// scripted is a store at the other end of pipes: it takes subscriptions, and says what it is told.
type scripted struct {
	*testing.T

	mu    sync.Mutex
	mute  bool // it takes bytes and never answers, as behind a network that drops them
	lines []*line
	work  sync.WaitGroup
}

// line is one connection to it.
type line struct {
	nc         net.Conn
	subscribed bool
	pings      int
}

func (s *scripted) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	l := &line{nc: far}
	s.mu.Lock()
	s.lines = append(s.lines, l)
	s.mu.Unlock()
	s.work.Go(func() { s.serve(l) })
	return near, nil
}

func (s *scripted) serve(l *line) {
	defer l.nc.Close()
	in := bufio.NewReader(l.nc)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		s.mu.Lock()
		mute := s.mute
		reply := l.reply(args)
		s.mu.Unlock()
		if mute {
			continue
		}
		if _, err := io.WriteString(l.nc, reply); err != nil {
			return
		}
	}
}

func (l *line) reply(args []string) string {
	switch strings.ToLower(args[0]) {
	case "hello":
		return "-ERR unknown command 'HELLO'\r\n"
	case "eval":
		return ":1\r\n"
	case "script":
		return "$1\r\nx\r\n"
	case "subscribe":
		l.subscribed = true
		return "*3\r\n$9\r\nsubscribe\r\n$" + strconv.Itoa(len(args[1])) + "\r\n" + args[1] + "\r\n:1\r\n"
	case "ping":
		l.pings++
		return "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	}
	return "+OK\r\n"
}

// silence makes the store mute, or lets it speak again.
func (s *scripted) silence(mute bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = mute
}

// publish sends a message over the newest subscription.
func (s *scripted) publish(payload string) {
	s.mu.Lock()
	var nc net.Conn
	for _, l := range s.lines {
		if l.subscribed {
			nc = l.nc
		}
	}
	s.mu.Unlock()
	channel := tokenstore.WakeChannel("p")
	_, _ = io.WriteString(nc, "*3\r\n$7\r\nmessage\r\n$"+strconv.Itoa(len(channel))+"\r\n"+channel+
		"\r\n$"+strconv.Itoa(len(payload))+"\r\n"+payload+"\r\n")
}

// subscriptions are the connections that have subscribed, and the pings they got.
func (s *scripted) subscriptions() (n, pings int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if l.subscribed {
			n++
			pings += l.pings
		}
	}
	return n, pings
}

// connections is how many connections it has had.
func (s *scripted) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

func readCommand(in *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		text, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(text[1:]))
	}
	n, err := number()
	args := make([]string, n)
	for i := range args {
		size, numberErr := number()
		if numberErr != nil {
			return nil, numberErr
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(in, arg); err != nil {
			return nil, err
		}
		args[i] = string(arg[:size])
	}
	return args, err
}

// ears counts what a listener hears.
type ears struct {
	mu         sync.Mutex
	subscribed int
	woken      []wake
}

func (e *ears) Subscribed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.subscribed++
}

func (e *ears) Woken(waiter string, grant uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.woken = append(e.woken, wake{waiter, grant})
}

// listening runs a test, in a bubble, on a proxy that listens to a scripted store.
func listening(t *testing.T, test func(*scripted, *ears)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		far, heard := &scripted{T: t}, &ears{}
		store, err := tokenstore.Open(t.Context(), &redis.Options{
			Addr: "127.0.0.1:6379", Dialer: far.dial, Protocol: 2, MaxRetries: -1, DisableIdentity: true,
		}, "redis")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			store.Listen(ctx, "p", heard)
		}()
		synctest.Wait()
		test(far, heard)
		cancel()
		<-done
		store.Close()
		far.work.Wait()
	})
}

func TestAListenerHearsOfHandOvers(t *testing.T) {
	listening(t, func(far *scripted, heard *ears) {
		far.publish("p.1 77")
		far.publish("nonsense")
		far.publish("p.2 78")
		synctest.Wait()
		if heard.subscribed != 1 || len(heard.woken) != 2 || heard.woken[0] != (wake{"p.1", 77}) || heard.woken[1] != (wake{"p.2", 78}) {
			far.Errorf("it heard %+v", heard)
		}
	})
}

func TestAnIdleSubscriptionStaysAsLongAsTheStoreGivesSignsOfLife(t *testing.T) {
	listening(t, func(far *scripted, heard *ears) {
		time.Sleep(time.Hour)
		synctest.Wait()
		if n, pings := far.subscriptions(); n != 1 || pings == 0 {
			far.Errorf("%d subscriptions, %d pings", n, pings)
		}
		far.publish("p.1 77")
		synctest.Wait()
		if heard.subscribed != 1 || len(heard.woken) != 1 {
			far.Errorf("it heard %+v", heard)
		}
	})
}

func TestAHalfOpenSubscriptionIsNoticedAndMadeAgain(t *testing.T) {
	listening(t, func(far *scripted, heard *ears) {
		time.Sleep(time.Minute)
		before := far.connections()
		far.silence(true)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if far.connections() == before {
			far.Error("the dead connection was not noticed")
		}
		if heard.subscribed != 1 {
			far.Errorf("subscribed %d times at a mute store", heard.subscribed)
		}
		far.silence(false)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if heard.subscribed != 2 {
			far.Errorf("subscribed %d times", heard.subscribed)
		}
		far.publish("p.1 77")
		synctest.Wait()
		if len(heard.woken) != 1 {
			far.Errorf("it heard %+v", heard)
		}
	})
}
