package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Redlock keeps locks on N independent Redis nodes, of which a majority, the quorum, has to answer. Its settings are
// RedlockSettings.
//
//	take     on all nodes: SET lock value NX PX lease       the first quorum decides
//	raise    on these nodes: counter = grant                if the lock is still ours there, and counter < grant
//	         used if a quorum has raised it before began + lease − drift
//	renew    on all nodes: PEXPIRE lock                     if it is ours; a node that came back joins
//	release  on all nodes: DEL lock, PUBLISH                if it is ours
//
// All nodes are asked at once. An uncontended session costs two round trips to the quorum's slowest node, and a release a third that
// nobody waits for; a renewal costs one. A node that is slow or gone costs nothing as long as the others are a quorum. What was
// taken in vain, or may have been (the answer was lost), is deleted on every node.
//
// # Waiting
//
// Within one proxy, first come first served. Among proxies there is no order: the first waiter of each asks again at random, the
// longer the more seldom, and as soon as a quorum of nodes has published a release. A proxy that releases while
// others wait elsewhere lets them try first, so that none is starved by one that always has somebody in line.
//
// # Grants grow
//
// A grant is the largest of: one above the counters of the quorum, one above Request.Above, and the second largest of the
// clocks of the quorum and of this proxy, in microseconds. It is used only if a quorum has raised its counters to it.
//
// Claim: a grant g' is larger than every g that was used before its Acquire began. Proof: the quorums that raised g and g'
// have a node n in common, and n raised g first.
//
//   - If n has kept its memory, its counter was at least g when it raised g', and raise demands that g' is larger. That
//     needs no clock and no lock: clocks may step, leases lapse, messages come late. A late raise of an acquisition that has failed
//     does nothing if its lock is gone, and else makes a counter larger, never smaller. Its number may come again in
//     another acquisition, but no node raises it twice, so only one of them is ever used.
//   - If n has lost its memory in between (it was restarted empty or flushed, or the counter's TTL was over), time tells. Say
//     that right clocks are less than e off the true time, and that at most one of the clocks asked is wrong, by however
//     much: the second largest of three or more is then right, or between two that are. Counters and Above are earlier
//     grants, and grow by one in far more than a microsecond. So a grant made at T is below T + e, and above T − e. n has
//     sat out restart_delay before it gave its lock again; the other nodes were asked at the same time, two
//     node_timeouts earlier at most. So g' > g if restart_delay is above 2e and two node_timeouts. If n's own clock is the
//     wrong one, and ahead, it may sit out for less, or forget early; then the two grants have to be 2e apart by themselves.
//
// With two wrong clocks and a loss of memory, grants may fall back. The store refuses them all the same, for it knows its
// newest grant: a proxy that was given a smaller one acquires again, with Above.
//
// # One owner at a time
//
// Two claims can't have a quorum of locks each, so holds exclude each other as long as nodes count leases at the proxies'
// rate, within drift_percent. A node that has lost its memory could vote twice within one lease: it sits out restart_delay,
// which must not be shorter than any lease. So do new nodes: a new set grants nothing for its first restart_delay. A clock
// that steps forward ends the locks of its node, and what it sits out: with one such node and another one that is down, two
// owners may hold a session until the first one's next renewal. The store then lets only the later one write. A clock that steps
// back makes the locks of its node outlast their lease; whoever meets such a lock cuts it to its lease.
//
// A renewal takes locks on nodes that are free, so a hold survives when its nodes restart one after the other; the first one
// comes at once if another's vain attempt had a node as the hold was granted. Such a node
// counts only if its counter is not above the hold's grant: had anybody else been granted the session meanwhile, then on a
// quorum, which has a node in common with the renewal's; there the counter is larger, or the lock was the hold's throughout.
var Redlock = Kind{Name: "redlock", Settings: redlockDefaults, Open: openRedlock}

// redlock is the Locker.
type redlock struct {
	settings RedlockSettings
	proxy    string
	log      *slog.Logger
	nodes    []*redlockMember
	quorum   int
	jitter   func(time.Duration) time.Duration // between a half and all of it

	io      context.Context // of everything asked of nodes: ends when Close gives up on them
	stop    context.CancelFunc
	leaving context.Context // of those who wait in line: ends when Close begins
	leave   context.CancelFunc
	tasks   sync.WaitGroup // whoever entered, and what it has started
	closing sync.Once
	done    chan struct{} // closed when all of it has ended

	mu     sync.Mutex
	closed bool
	lines  map[string]*redlockLine // by session
	holds  map[*redlockHold]struct{}
}

var errRedlockClosed = errors.New("redlock is closed")

func openRedlock(s Settings, env Environment) (Locker, error) {
	settings, ok := s.(*RedlockSettings)
	if !ok {
		return nil, fmt.Errorf("redlock has no settings of type %T", s)
	}
	if setting, remedy := settings.Validate(); setting != "" {
		return nil, fmt.Errorf("redlock: %s: %s", setting, remedy)
	}
	l := newRedlock(*settings, env)
	for i, url := range settings.Nodes {
		node, err := newRedlockRedis(url, settings, l.heard)
		if err != nil {
			l.closeNodes()
			return nil, fmt.Errorf("redlock: nodes[%d]: %w", i, err)
		}
		l.add(node.client.Options().Addr, node)
	}
	return l, nil
}

func newRedlock(settings RedlockSettings, env Environment) *redlock {
	l := &redlock{
		settings: settings, proxy: env.Proxy, log: env.Log,
		lines: map[string]*redlockLine{}, holds: map[*redlockHold]struct{}{}, done: make(chan struct{}),
		jitter: func(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) },
	}
	l.io, l.stop = context.WithCancel(context.Background())
	l.leaving, l.leave = context.WithCancel(context.Background())
	return l
}

func (l *redlock) add(name string, node redlockNode) {
	l.nodes = append(l.nodes, &redlockMember{redlockNode: node, l: l, name: name})
	l.quorum = len(l.nodes)/2 + 1
}

// Acquire is Locker's. It fails at once when no quorum answers, and names the nodes that don't.
func (l *redlock) Acquire(ctx context.Context, r Request) (Hold, error) {
	if r.Lease < time.Millisecond {
		return nil, fmt.Errorf("redlock: a lease of %v", r.Lease)
	}
	if !l.enter() {
		return nil, errRedlockClosed
	}
	defer l.tasks.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.leaving, func() { cancel(errRedlockClosed) })()

	place := l.join(r.Session)
	hold, err := place.wait(ctx, &r)
	switch kept := place.leave(hold); {
	case err == nil && kept:
		return hold, nil
	case err == nil:
		_ = hold.end(ctx)
		return nil, errRedlockClosed
	case errors.Is(context.Cause(ctx), errRedlockClosed):
		return nil, errRedlockClosed
	default:
		return nil, fmt.Errorf("redlock: %w", err)
	}
}

// try asks the nodes once. Without an error it returns a hold, or why there is none.
func (l *redlock) try(ctx context.Context, r *Request) (*redlockHold, *redlockRefusal, error) {
	began := time.Now()
	c := l.claim(r)
	until := began.Add(r.Lease - l.drift(r.Lease))
	votes, refusal, err := c.take(ctx)
	if err == nil && refusal == nil {
		var grant uint64
		if grant, err = votes.grant(r.Above); err == nil {
			refusal, err = c.raise(ctx, grant)
		}
		if err == nil && refusal == nil && time.Now().Before(until) {
			return newRedlockHold(c, grant, until), nil, nil
		}
	}
	c.give()
	if err == nil && refusal == nil {
		refusal = &redlockRefusal{} // it took too long
	}
	return nil, refusal, err
}

// backoff is how long to wait before something is tried for the n-th time again, the first being 0.
func (l *redlock) backoff(n int) time.Duration {
	d := l.settings.BackoffMax
	if n < 16 {
		d = min(d, l.settings.BackoffMin<<n)
	}
	return l.jitter(d)
}

// drift is what clocks may differ by in the course of a lease.
func (l *redlock) drift(lease time.Duration) time.Duration {
	return lease*time.Duration(l.settings.DriftPercent)/100 + 2*time.Millisecond
}

// Check is Locker's: a quorum takes part, and can be written to.
func (l *redlock) Check(ctx context.Context) error {
	if !l.enter() {
		return errRedlockClosed
	}
	defer l.tasks.Done()
	t := l.tally()
	answers := l.claim(&Request{Lease: time.Minute}).ask(redlockCheck, millis(l.settings.RestartDelay))
	for t.undecided() {
		a, err := next(ctx, answers)
		if err != nil {
			return fmt.Errorf("redlock: %w", err)
		}
		t.count(a.err == nil, a.err)
	}
	if err := t.down(); err != nil {
		return fmt.Errorf("redlock: %w", err)
	}
	return nil
}

// Close is Locker's.
func (l *redlock) Close(ctx context.Context) error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	holds := l.holds
	l.holds = nil
	if first {
		l.tasks.Add(1)
	}
	l.mu.Unlock()
	if first {
		l.leave()
		for h := range holds {
			l.tasks.Go(func() {
				if err := h.end(ctx); err != nil {
					l.log.Warn("a hold was not released, and ends with its lease", "session", h.claim.key.session, "grant", h.grant, "error", err)
				}
			})
		}
		l.tasks.Done()
		go func() {
			l.tasks.Wait()
			l.closeNodes()
			close(l.done)
		}()
	}
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		go l.closeNodes() // ends what is still asked, which may take a node_timeout
		return fmt.Errorf("redlock: %w", ctx.Err())
	}
}

func (l *redlock) closeNodes() {
	l.stop()
	l.closing.Do(func() {
		for _, n := range l.nodes {
			n.close()
		}
	})
}

// enter counts a caller in, to be left with tasks.Done. It returns false when Close has begun.
func (l *redlock) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.tasks.Add(1)
	}
	return !l.closed
}
