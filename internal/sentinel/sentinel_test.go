package sentinel

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a server that answers as the test wants.
type scripted struct {
	addr string

	mu      sync.Mutex
	answers map[string]func(redcon.Conn)
}

// newScripted starts a server. The answers are to the first word, or two.
func newScripted(t *testing.T, answers map[string]func(redcon.Conn)) *scripted {
	t.Helper()
	s := &scripted{answers: answers}
	answers["CLIENT"] = func(c redcon.Conn) { c.WriteString("OK") }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	server := redcon.NewServer(s.addr, func(conn redcon.Conn, cmd redcon.Command) {
		words := make([]string, len(cmd.Args))
		for i, a := range cmd.Args {
			words[i] = strings.ToUpper(string(a))
		}
		s.mu.Lock()
		answer := s.answers[strings.Join(words[:min(2, len(words))], " ")]
		if answer == nil {
			answer = s.answers[words[0]]
		}
		s.mu.Unlock()
		if answer == nil {
			conn.WriteError("ERR unknown command")
			return
		}
		answer(conn)
	}, func(redcon.Conn) bool { return true }, nil)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = l.Close()
		if err := <-done; err != nil {
			t.Log("the server ended:", err)
		}
	})
	return s
}

func (s *scripted) answer(to string, with func(redcon.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[to] = with
}

func list(words ...string) func(redcon.Conn) {
	return func(c redcon.Conn) {
		c.WriteArray(len(words))
		for _, w := range words {
			c.WriteBulkString(w)
		}
	}
}

// node answers ROLE.
func node(t *testing.T, role string) *scripted {
	t.Helper()
	return newScripted(t, map[string]func(redcon.Conn){"ROLE": list(role, "0")})
}

// sentinelOf names a primary, in a configuration with an epoch.
func sentinelOf(t *testing.T, primary, epoch string) *scripted {
	t.Helper()
	s := newScripted(t, map[string]func(redcon.Conn){"SENTINEL SENTINELS": func(c redcon.Conn) { c.WriteArray(0) }})
	s.names(primary, epoch)
	return s
}

func (s *scripted) names(primary, epoch string) {
	host, port, _ := net.SplitHostPort(primary)
	s.answer("SENTINEL GET-MASTER-ADDR-BY-NAME", list(host, port))
	s.answer("SENTINEL MASTER", list("config-epoch", epoch))
}

func open(t *testing.T, sentinels ...*scripted) *Dialer {
	t.Helper()
	o := Options{Name: "main", DialTimeout: time.Second, Log: slog.New(slog.DiscardHandler)}
	for _, s := range sentinels {
		o.Sentinels = append(o.Sentinels, s.addr)
	}
	d := Open(o)
	t.Cleanup(d.Close)
	return d
}

// leads waits until connections go to a node.
func leads(t *testing.T, d *Dialer, to *scripted) net.Conn {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		nc, err := d.Dial(t.Context(), "", "")
		if err != nil {
			continue
		}
		if nc.RemoteAddr().String() == to.addr {
			t.Cleanup(func() { _ = nc.Close() })
			return nc
		}
		_ = nc.Close()
	}
	t.Fatalf("connections do not go to %s but to %s", to.addr, d.Primary())
	return nil
}

func TestTheNewestConfigurationCountsIfTheNodeAgrees(t *testing.T) {
	old, next := node(t, "master"), node(t, "master")
	stale, fresh := sentinelOf(t, old.addr, "3"), sentinelOf(t, next.addr, "4")
	d := open(t, stale, fresh)
	leads(t, d, next)

	fresh.answer("SENTINEL GET-MASTER-ADDR-BY-NAME", func(c redcon.Conn) { c.WriteError("ERR gone") })
	d.hear()
	leads(t, d, next) // what only an old one says, while the node itself says that it is the primary
	if d.Switches() != 0 {
		t.Error("it went back to the old one")
	}
	next.answer("ROLE", list("slave", "h", "1"))
	d.Suspect()
	leads(t, d, old)
}

func TestANodeThatSaysItIsNoneIsNotThePrimary(t *testing.T) {
	replica := node(t, "slave")
	d := open(t, sentinelOf(t, replica.addr, "1"))
	nc, err := d.Dial(t.Context(), "", "")
	if err == nil {
		_ = nc.Close()
	}
	if !isReplica(err) {
		t.Errorf("%v", err)
	}
	replica.answer("ROLE", list("master", "0"))
	leads(t, d, replica)
}

func TestConnectionsToAReplacedPrimaryAreClosed(t *testing.T) {
	old, next := node(t, "master"), node(t, "master")
	s := sentinelOf(t, old.addr, "1")
	d := open(t, s)
	nc := leads(t, d, old)
	s.names(next.addr, "2")
	d.hear()
	if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the old connection: %v", err)
	}
	kept := leads(t, d, next)
	d.hear()
	leads(t, d, next)
	if _, err := kept.Write([]byte("*1\r\n$4\r\nROLE\r\n")); err != nil {
		t.Errorf("the new connection: %v", err)
	}
}

// A user that may not ask is told once, and served.
func TestANodeThatDoesNotSayIsTaken(t *testing.T) {
	mute := newScripted(t, map[string]func(redcon.Conn){"ROLE": func(c redcon.Conn) { c.WriteError("NOPERM no") }})
	leads(t, open(t, sentinelOf(t, mute.addr, "1")), mute)
}

func TestSentinelsThatOthersKnowAreAskedAndForgotten(t *testing.T) {
	old, next := node(t, "master"), node(t, "master")
	other := sentinelOf(t, next.addr, "2")
	given := sentinelOf(t, old.addr, "1")
	host, port, _ := net.SplitHostPort(other.addr)
	given.answer("SENTINEL SENTINELS", func(c redcon.Conn) {
		c.WriteArray(1)
		list("ip", host, "port", port)(c)
	})
	d := open(t, given)
	leads(t, d, old)
	d.hear()
	leads(t, d, next) // as the other says
	given.answer("SENTINEL SENTINELS", func(c redcon.Conn) { c.WriteArray(0) })
	given.names(old.addr, "3")
	d.hear()
	leads(t, d, old)
	other.names(next.addr, "4") // nobody listens to it any more
	d.hear()
	for range 3 {
		leads(t, d, old)
	}
}

func TestDialDoesNotOutlastItsContext(t *testing.T) {
	d := open(t, newScripted(t, map[string]func(redcon.Conn){}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Dial(ctx, "", ""); err == nil {
		t.Error("connected to nobody")
	}
}
