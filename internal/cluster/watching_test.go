//go:build integration

package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// gate withholds what is sent to a node from a MULTI on, once it is shut.
type gate struct {
	addr    string
	shut    atomic.Bool
	arrived chan struct{}
	open    chan struct{}
}

func newGate(addr string) *gate {
	return &gate{addr: addr, arrived: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil || address != g.addr {
		return nc, err
	}
	return &gated{nc, g}, nil
}

type gated struct {
	net.Conn
	g *gate
}

func (c *gated) Write(p []byte) (int, error) {
	at := bytes.Index(p, []byte("*1\r\n$5\r\nMULTI"))
	if at < 0 || !c.g.shut.CompareAndSwap(true, false) {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:at])
	if err != nil {
		return n, err
	}
	close(c.g.arrived)
	<-c.g.open
	more, err := c.Conn.Write(p[at:])
	return n + more, err
}

// A pipeline of WATCH, commands and a transaction reaches a node that has not got the slot, and the rest of it when the slot has come
// back: the transaction must not pass for one whose WATCH was good.
func TestASlotComesBackInTheMiddleOfAPipeline(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"at the first sign of trouble": false, "while slots are on the move": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := harness.StartCluster(t, 3, 0)
			home := of.Of("{k}a")
			g := newGate(home.Addr)
			c := openBy(t, of, g.dial)
			l := dial(t, c)
			l.expect("SET {k}a 1", ok)
			slot, to := of.Slot("{k}a"), elsewhere(of, "{k}a")
			if known {
				other := of.Slot("other")
				of.Migrate(other, elsewhere(of, "other"))
				l.expect("GET other", "$-1\r\n")
			}
			of.Migrate(slot, to)
			g.shut.Store(true)
			l.send("WATCH {k}a", "GET {k}a", "MULTI", "SET {k}a 2", "EXEC")
			<-g.arrived
			of.Migrate(slot, home)
			close(g.open)
			got := ""
			for range 5 {
				reply, err := l.reply()
				if err != nil {
					if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
						t.Error(err)
					}
					got = "closed"
					break
				}
				got = reply
			}
			if got != "*-1\r\n" && got != "closed" {
				t.Errorf("EXEC answers %q", got)
			}
			l = dial(t, c)
			l.send("GET {k}a")
			value := l.read()
			if known && (got != "*-1\r\n" || value != "$1\r\n1\r\n") {
				t.Errorf("EXEC answers %q, and the value is %q", got, value)
			}
			t.Logf("EXEC: %q, value: %q", got, value)
		})
	}
}

// A node comes back right after a WATCH was given up.
func TestAWatchThatWasGivenUpIsNoneToRelyOn(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	home := of.Of("{k}a")
	var severed atomic.Bool
	c := openBy(t, of, func(ctx context.Context, network, address string) (net.Conn, error) {
		if severed.Load() && address == home.Addr {
			return nil, fmt.Errorf("%s is not to be had", address)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	of.Client().Set(t.Context(), "{k}a", 1, 0)
	l := dial(t, c)
	severed.Store(true)
	l.send("WATCH {k}a")
	if got := l.read(); !strings.HasPrefix(got, "-CLUSTERDOWN") {
		t.Fatalf("a WATCH at a node that is not to be had: %q", got)
	}
	severed.Store(false)
	l.expect("GET {k}a", "$1\r\n1\r\n", "MULTI", ok, "SET {k}a 2", queued, "EXEC", "*-1\r\n", "GET {k}a", "$1\r\n1\r\n",
		"WATCH {k}a", ok, "MULTI", ok, "SET {k}a 2", queued, "EXEC", "*1\r\n+OK\r\n")
}

// A connection that breaks while a WATCH stands on it ends the client's, whoever notices it first.
func TestAWatchEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	home := of.Of("{k}a")
	of.Client().Set(t.Context(), "{k}a", 1, 0)
	for range 200 {
		l := dial(t, c)
		l.expect("WATCH {k}a", ok)
		if err := home.Client().ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
		if reply := l.transaction(); strings.HasPrefix(reply, "*") && reply != "*-1\r\n" {
			t.Fatalf("a transaction was carried out without its WATCH: %q", reply)
		}
		_ = l.Close()
	}
}

// transaction sends one behind another command, and returns the reply to EXEC, "" for none.
func (l *line) transaction() (reply string) {
	var out []byte
	for _, command := range []string{"GET {k}a", "MULTI", "SET {k}a 2", "EXEC"} {
		out = resp.AppendCommandStrings(out, strings.Fields(command)...)
	}
	if _, err := l.Write(out); err != nil {
		return ""
	}
	for range 4 {
		var err error
		if reply, err = l.reply(); err != nil {
			return ""
		}
	}
	return reply
}
