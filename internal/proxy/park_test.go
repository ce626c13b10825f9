package proxy

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// waits are the ways in which a command waits; each returns at last.
var waits = map[string]func(*client) error{
	"for its turn": func(c *client) error {
		_, err := c.enter(occupied(c), patience, nil, nil)
		return err
	},
	"for a hand-over": func(c *client) error {
		_, err := c.queue(patience)
		return err
	},
	"for a reply to what blocks": func(c *client) error {
		c.blocking = true
		c.exchange.Reset(1, -1, false, nil)
		return c.await(c.exchange)
	},
}

// occupied is a sequence that somebody is inside of.
func occupied(c *client) *lock.Sequence {
	s := c.owner.Sequence(tokenstore.Area{}, c.srv.rules.now().set.Rules()[0], []byte("s1"))
	s.TryEnter()
	return s
}

// ends runs a wait, and fails the test unless it ends for the reason given.
func ends(t *testing.T, c *client, wait func(*client) error, meanwhile func(), want error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- wait(c) }()
	meanwhile()
	select {
	case err := <-ended:
		if !errors.Is(err, want) {
			t.Errorf("it ended with %v, want %v", err, want)
		}
	case <-time.After(patience / 2):
		t.Fatal("it was not noticed")
	}
}

func TestAClientThatLeavesWhileItsCommandWaitsIsNoticed(t *testing.T) {
	for name, wait := range waits {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+" over "+network, func(t *testing.T) {
				c, far := connect(t, offline(t), network)
				ends(t, c, wait, func() { _ = far.Close() }, errGone)
			})
		}
	}
}

func TestAClientThatLeavesIsNoticedThoughItHasSentMoreThanIsReadAhead(t *testing.T) {
	for name, wait := range waits {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+" over "+network, func(t *testing.T) {
				c, far := connect(t, offline(t), network)
				ends(t, c, wait, func() {
					if _, err := far.Write(make([]byte, aheadMost+16<<10)); err != nil {
						t.Error(err)
					}
					_ = far.Close()
				}, errGone)
				if n := len(c.in.bytes()); n < aheadMost {
					t.Errorf("only %d bytes were read ahead: the test shows nothing", n)
				}
			})
		}
	}
}

// Whoever has closed the half that it speaks over may listen on the other.
func TestAClientThatSaysNoMoreGetsTheReplyThatItWaitsFor(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			c, far := connect(t, offline(t), network)
			x := c.exchange
			wait := func(c *client) error { return c.await(x) }
			x.Reset(1, -1, false, nil)
			ends(t, c, wait, func() {
				_ = far.Close()
				time.Sleep(2 * watchAfter) // it is watched, and was seen to end
				x.Done <- struct{}{}
			}, nil)
			x.Reset(1, -1, false, nil)
			ends(t, c, wait, c.stop, errStopping)
		})
	}
}

func TestAClientThatIsToGoWhileItsCommandWaitsIsTold(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			c, _ := connect(t, offline(t), "tcp")
			ends(t, c, wait, c.stop, errStopping)
			c.watch().stop() // a wait that was over in the moment in which it was told
			ends(t, c, wait, func() {}, errStopping)
		})
	}
}

func TestAWaitEndsWhenTheUpstreamIsLost(t *testing.T) {
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			c, _ := connect(t, offline(t), "tcp")
			ends(t, c, wait, func() {
				c.lost.Store(true)
				_ = c.nc.SetReadDeadline(past)
			}, upstream.ErrLost)
		})
	}
}

func TestWhatAClientSendsWhileItsCommandsWaitIsReadInOrder(t *testing.T) {
	const commands = 2000
	c, far := connect(t, offline(t), "tcp")
	c.up = upstream.NewConn(nil, &c.out) // nothing is sent there
	var sender sync.WaitGroup
	sender.Go(func() {
		var stream []byte
		for n := range commands {
			stream = resp.AppendCommandStrings(stream, "ECHO", strconv.Itoa(n))
		}
		for r := rand.New(rand.NewPCG(1, 2)); len(stream) > 0; {
			piece := min(len(stream), 1+r.IntN(200))
			if _, err := far.Write(stream[:piece]); err != nil {
				t.Error(err)
				return
			}
			stream = stream[piece:]
		}
	})
	s := occupied(c)
	for n := range commands {
		req, err := c.next()
		if err != nil || string(req.Args[1]) != strconv.Itoa(n) {
			t.Fatalf("command %d is %q, %v", n, req.Args, err)
		}
		go s.Leave()
		if in, err := c.enter(s, patience, nil, nil); !in || err != nil {
			t.Fatalf("it did not get its turn: %v", err)
		}
		if string(req.Args[0]) != "ECHO" || string(req.Args[1]) != strconv.Itoa(n) {
			t.Fatalf("command %d became %q while it waited", n, req.Args)
		}
	}
	sender.Wait()
	s.Leave()
}

func TestAWaitIsOverWhenItsTimeIs(t *testing.T) {
	c, far := connect(t, offline(t), "tcp")
	c.up = upstream.NewConn(nil, &c.out)
	for _, left := range []time.Duration{-1, 0, 1, time.Millisecond} {
		if in, err := c.enter(occupied(c), left, nil, nil); in || err != nil {
			t.Errorf("after %v: %v, %v", left, in, err)
		}
		if woken, err := c.queue(left); woken || err != nil {
			t.Errorf("after %v: %v, %v", left, woken, err)
		}
	}
	// The socket is as before: a read waits for what the client sends.
	go func() { _, _ = far.Write([]byte("PING\r\n")) }()
	if req, err := c.next(); err != nil || string(req.Args[0]) != "PING" {
		t.Errorf("%q, %v", req.Args, err)
	}
}

func TestAWaitForAHandOverEndsWithIt(t *testing.T) {
	c, _ := connect(t, offline(t), "tcp")
	ends(t, c, func(c *client) error {
		woken, err := c.queue(patience)
		if !woken {
			t.Error("it was not woken")
		}
		return err
	}, func() { c.srv.locks.Woken(c.waiter.ID(), 7) }, nil)
}

func TestAWaitForAReplyEndsWithIt(t *testing.T) {
	for _, want := range []error{nil, upstream.ErrLost} {
		c, _ := connect(t, offline(t), "tcp")
		x := c.exchange
		x.Reset(1, -1, false, nil)
		x.Err = want
		ends(t, c, func(c *client) error { return c.await(x) }, func() { x.Done <- struct{}{} }, want)
	}
}

// The store took this proxy's waiters for gone: the client takes a place anew before it waits on.
func TestAWaiterThatHasLostItsPlaceDoesNotWaitWithoutOne(t *testing.T) {
	c, _ := connect(t, offline(t), "tcp")
	s := c.owner.Sequence(tokenstore.Area{}, c.srv.rules.now().set.Rules()[0], []byte("s1"))
	for ahead, waits := range map[int]bool{-1: false, 0: true, 3: true} {
		p, err := c.queued(s, tokenstore.Begin{Ahead: ahead}, time.Now())
		if (p.left > 0) != waits || err != nil {
			t.Errorf("behind %d others, it waits for %v (%v)", ahead, p.left, err)
		}
	}
}
