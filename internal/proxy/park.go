package proxy

import (
	"errors"
	"io"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// errGone says that the client left while its command waited.
var errGone = errors.New("the client has gone")

// errQuit says that the client has asked to be closed.
var errQuit = errors.New("the client has quit")

// errReplica says that a client that is a replica has sent what only a client may.
var errReplica = errors.New("a replica can't touch guarded keys")

// errStopping says that the proxy stopped while a command waited.
var errStopping = errors.New("the proxy is stopping")

const (
	// watchAfter is how long a command waits before its socket is watched. A usual round trip is
	// over sooner.
	watchAfter = 50 * time.Millisecond
	// probeEvery is how often a client is looked after that has sent more than is read ahead.
	probeEvery = 100 * time.Millisecond
)

// past is a deadline that makes a blocked read return.
var past = time.Unix(1, 0)

// await waits for an exchange. The error is errGone or upstream.ErrLost.
func (c *client) await(x *upstream.Exchange) error {
	c.out.hurry(true)
	defer c.out.hurry(false)
	c.timer.Reset(watchAfter)
	select {
	case <-x.Done:
		c.timer.Stop()
		c.blocking = false
		return x.Err
	case <-c.timer.C:
	}
	w := c.watch()
	defer w.stop()
	for {
		select {
		case <-x.Done:
			c.blocking = false
			return x.Err
		case <-w.more:
			w.more = nil
			c.giveWay(overtaken)
		case c.circle = <-c.waiter.Stuck:
			c.giveWay(deadlocked)
		case <-w.gone:
			return c.part(x, w.ended)
		}
	}
}

// errStirred says that there may be another sequence to enter.
var errStirred = errors.New("the client's sequences on the session have changed")

// enter waits for the client's turn on a sequence. It reports false when left is over, and errStirred when
// that channel closes before. The client has its turn on the sequences of lent: if the wait is for somebody in line, whoever
// comes for one of them gets it, and enter says errLent.
func (c *client) enter(s *lock.Sequence, left time.Duration, stirred <-chan struct{}, lent []part) (bool, error) {
	if s.TryEnter() {
		return true, nil
	}
	if left <= 0 {
		return false, nil
	}
	waiting := int(s.Waiting(1))
	defer s.Waiting(-1)
	if most := c.srv.limits.Load().Waiters; most > 0 && waiting > most {
		return false, c.crowd(s, tokenstore.Holder{}, most)
	}
	w := c.watch()
	defer w.stop()
	c.timer.Reset(left)
	defer c.timer.Stop()
	var inLine, wanted <-chan struct{}
	keeps := func() {}
	defer func() { keeps() }()
	if len(lent) > 0 {
		inLine = s.InLine()
	}
	for {
		select {
		case s.Turn() <- struct{}{}:
			s.Entered()
			return true, nil
		case <-stirred:
			return false, errStirred
		case <-inLine:
			keeps = c.lend(lent, nil)
			inLine, wanted = nil, c.wanted
		case <-wanted:
			stepOut(lent, nil)
			return false, errLent
		case <-c.timer.C:
			return false, nil
		case <-w.gone:
			return false, c.gone()
		}
	}
}

// queue waits for a hand-over. It reports false when left is over.
func (c *client) queue(left time.Duration) (bool, error) {
	if left <= 0 {
		return false, nil
	}
	defer c.lend(c.turning, c.inLine.sequence)()
	w := c.watch()
	defer w.stop()
	c.timer.Reset(left)
	defer c.timer.Stop()
	for {
		select {
		case <-c.waiter.C:
			return true, nil
		case <-c.wanted:
			stepOut(c.turning, c.inLine.sequence)
		case <-c.timer.C:
			return false, nil
		case <-w.more:
			c.wayGiven, c.several = overtaken, true
			return false, nil
		case c.circle = <-c.waiter.Stuck:
			c.wayGiven = deadlocked
			return false, nil
		case <-w.gone:
			return false, c.gone()
		}
	}
}

// sleep waits to be woken, or for d to be over. over says that the client stands by no more.
func (c *client) sleep(blocked *wait, d time.Duration) (over bool, err error) {
	w := c.watch()
	defer w.stop()
	c.timer.Reset(d)
	defer c.timer.Stop()
	select {
	case <-blocked.standby.Done:
		return true, nil
	case <-blocked.sleeper.wake:
		return false, nil
	case <-c.timer.C:
		return false, nil
	case <-w.gone:
		return false, c.gone()
	}
}

// pause waits for a channel to close. It reports whether left is over.
func (c *client) pause(stirred <-chan struct{}, left time.Duration) (over bool, err error) {
	if left <= 0 {
		return true, nil
	}
	w := c.watch()
	defer w.stop()
	c.timer.Reset(left)
	defer c.timer.Stop()
	select {
	case <-stirred:
		return false, nil
	case <-c.timer.C:
		return true, nil
	case <-w.gone:
		return false, c.gone()
	}
}

// watcher reads ahead on a client's socket while its command waits, so that it sees the client
// go.
type watcher struct {
	c    *client
	gone chan struct{} // closed when the client has gone, or is to go
	done chan struct{}
	quit chan struct{}
	more chan struct{} // closed when something has come for which the command must not wait on

	ended bool // it says no more; set before gone is closed
}

// watch watches for a client that waits in line for a session (overtake.go), or for something else.
func (c *client) watch() *watcher {
	inLine := c.inLine
	if inLine.sequence == nil {
		return c.watchFor(nil)
	}
	return c.watchFor(func() bool { return c.overtaken(inLine) })
}

// watchFor watches, and closes more as soon as enough has come: that is called by the watcher, while the client's goroutine waits.
func (c *client) watchFor(enough func() bool) *watcher {
	w := &watcher{c: c, gone: make(chan struct{}), done: make(chan struct{}), quit: make(chan struct{}), more: make(chan struct{})}
	go w.run(enough, w.more)
	return w
}

func (w *watcher) run(enough func() bool, more chan struct{}) {
	defer close(w.done)
	for {
		if enough != nil && enough() {
			close(more)
			enough = nil
		}
		room, err := w.c.in.ahead(w.c.nc)
		if err != nil {
			if !w.stopped() {
				w.ended = errors.Is(err, io.EOF)
				close(w.gone)
			}
			return
		}
		if !room {
			w.probe()
			return
		}
		if w.stopped() {
			return
		}
	}
}

func (w *watcher) stopped() bool {
	select {
	case <-w.quit:
		return true
	default:
		return false
	}
}

// probe looks whether the client has closed its side, without reading.
func (w *watcher) probe() {
	t := time.NewTicker(probeEvery)
	defer t.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-t.C:
			if w.c.nc.HungUp() {
				w.ended = true
				close(w.gone)
				return
			}
		}
	}
}

// stop ends the watch; what was read stays in the input.
func (w *watcher) stop() {
	close(w.quit)
	_ = w.c.nc.SetReadDeadline(past)
	<-w.done
	_ = w.c.nc.SetReadDeadline(time.Time{})
	if w.c.stopping.Load() || w.c.lost.Load() {
		_ = w.c.nc.SetReadDeadline(past) // it was said meanwhile
	}
}
