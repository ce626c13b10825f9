//go:build integration

package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/locktest"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// redlockAmple is the lease of holds that must not end by themselves, redlockPatience how long what has to come may take.
const (
	redlockAmple    = 30 * time.Minute
	redlockPatience = 30 * time.Second
)

// slowRedlockNodes makes every wait for a node that does not answer longer than the test.
func slowRedlockNodes(s *provider.RedlockSettings) { s.NodeTimeout = 2 * redlockPatience }

// Case 35.
func TestRedlockGrantsWhileAMinorityIsGone(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(n *redlockNodes, p locktest.Proxy){
		"killed":        func(n *redlockNodes, _ locktest.Proxy) { n.servers[0].Kill() },
		"frozen":        func(n *redlockNodes, _ locktest.Proxy) { n.servers[0].Pause() },
		"cut off":       func(_ *redlockNodes, p locktest.Proxy) { redlockRelay(p, 0).Cut() },
		"in black hole": func(_ *redlockNodes, p locktest.Proxy) { redlockRelay(p, 0).Blackhole(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := startRedlockNodes(t, 3)
			early := nodes.open(t, slowRedlockNodes)
			redlockTake(t, early, "warm").release()
			late := nodes.open(t, slowRedlockNodes)
			lose(nodes, early)
			lose(nodes, late)
			t.Cleanup(func() { // before the Lockers close
				nodes.Resume()
				redlockRelay(early, 0).Blackhole(false)
				redlockRelay(late, 0).Blackhole(false)
			})
			for _, p := range []locktest.Proxy{early, late} {
				h := redlockTake(t, p, "s")
				if err := h.Renew(t.Context()); err != nil {
					t.Fatal(err)
				}
				h.release()
				if err := p.Check(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// Case 35.
func TestRedlockGrantsWhileANodeHasNoAddress(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	addrs := nodes.addrs()
	addrs[1] = "gone.invalid:6379"
	locker := openRedlock(t, addrs)
	redlockTake(t, locktest.Proxy{Locker: locker}, "s").release()
}

func TestRedlockSaysWhichNodesAreGoneAndGrantsNothing(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			nodes := startRedlockNodes(t, n)
			p := nodes.open(t)
			held := redlockTake(t, p, "held")
			var gone []string
			for i := range n/2 + 1 {
				redlockTake(t, p, "s").release()
				nodes.servers[i].Kill()
				gone = append(gone, redlockRelay(p, i).Addr)
			}
			_, err := p.Acquire(t.Context(), provider.Request{Session: "s", Lease: redlockAmple})
			for _, addr := range gone {
				if err == nil || !strings.Contains(err.Error(), addr) {
					t.Errorf("Acquire returns %v, want an error that names %s", err, addr)
				}
			}
			if err := p.Check(t.Context()); err == nil {
				t.Error("Check finds nothing amiss")
			}
			if err := held.Renew(t.Context()); err == nil || errors.Is(err, provider.ErrLost) {
				t.Errorf("Renew returns %v, though nobody can know whether the hold stands", err)
			}
			select {
			case <-held.Lost():
				t.Error("a hold that nobody could ask for is lost before its time")
			default:
			}
		})
	}
}

// A hold on nodes 0 and 1; node 1 forgets it. Nodes 1 and 2 could give it to another.
func TestARestartedRedlockNodeDoesNotVoteTwice(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	one, two := nodes.open(t), nodes.open(t)
	redlockRelay(one, 2).Cut()
	h := redlockTakeFor(t, one, "s", redlockLease)
	nodes.servers[1].RestartEmpty()
	redlockRelay(two, 0).Cut()
	next := redlockTakeAtLast(t, two, "s")
	if end := h.Until(); next.returned.Before(end) {
		t.Errorf("the session was granted %v before its hold ended", end.Sub(next.returned))
	}
	if next.Grant() <= h.Grant() {
		t.Errorf("grant %d comes after %d", next.Grant(), h.Grant())
	}
}

// A grant on nodes 0 and 1, of which the one goes and the other forgets. Node 2 has never heard of it.
func TestRedlockGrantsGrowWhenNobodyRemembersThem(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(before bool, clocks []*harness.Clock){
		"the clock of the node that is gone was ahead": func(before bool, clocks []*harness.Clock) {
			if before {
				clocks[0].Step(10 * time.Minute)
			}
		},
		"the clock of the node that forgets is set back": func(before bool, clocks []*harness.Clock) {
			if !before {
				clocks[1].Step(-10 * time.Minute)
			}
		},
		"the clock of the node that never knew is behind": func(before bool, clocks []*harness.Clock) {
			if before {
				clocks[2].Step(-10 * time.Minute)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := startRedlockNodes(t, 3)
			one, two := nodes.open(t), nodes.open(t)
			step(true, nodes.clocks)
			redlockRelay(one, 2).Cut()
			redlockRelay(two, 0).Cut()
			h := redlockTake(t, one, "s")
			h.release()
			nodes.servers[0].Kill()
			step(false, nodes.clocks)
			nodes.servers[1].RestartEmpty()
			if next := redlockTakeAtLast(t, two, "s"); next.Grant() <= h.Grant() {
				t.Errorf("grant %d comes after %d", next.Grant(), h.Grant())
			}
		})
	}
}

func TestAHoldSurvivesTheRestartOfEveryRedlockNode(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	one, two := nodes.open(t), nodes.open(t)
	h := redlockTake(t, one, "s")
	for i, server := range nodes.servers {
		server.RestartEmpty()
		harness.Eventually(t, 0, func() bool {
			if err := h.Renew(t.Context()); err != nil {
				t.Fatalf("node %d has restarted: %v", i, err)
			}
			return nodes.clients[i].Exists(t.Context(), redlockPrefix+"lock:s").Val() == 1
		}, "a node that is back has the lock again")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := two.Acquire(ctx, provider.Request{Session: "s", Lease: redlockAmple}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire returns %v while another holds the session", err)
	}
	h.release()
	if next := redlockTake(t, two, "s"); next.Grant() <= h.Grant() {
		t.Errorf("grant %d comes after %d", next.Grant(), h.Grant())
	}
}

func TestAHoldIsLostWhenAMajorityHasForgottenIt(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	p := nodes.open(t)
	h := redlockTake(t, p, "s")
	nodes.servers[0].RestartEmpty()
	nodes.servers[1].RestartEmpty()
	if err := h.Renew(t.Context()); !errors.Is(err, provider.ErrLost) {
		t.Errorf("Renew returns %v, want ErrLost", err)
	}
	select {
	case <-h.Lost():
	default:
		t.Error("Lost is open")
	}
	harness.Eventually(t, 0, func() bool {
		return nodes.clients[2].Exists(t.Context(), redlockPrefix+"lock:s").Val() == 0
	}, "what is left of a hold that is lost is deleted")
}

// A lock under a clock that is set back ten minutes would stand for so much longer.
func TestAClockSetBackDoesNotKeepADeadHold(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	one, two := nodes.open(t), nodes.open(t)
	redlockTakeFor(t, one, "s", redlockLease)
	nodes.awaitLocks("s", 3)
	one.Network.Cut()
	nodes.clocks[0].Step(-10 * time.Minute)
	nodes.servers[1].Kill()
	redlockTakeAtLast(t, two, "s")
}

// The nodes are frozen with a question in their sockets, which they carry out when nobody waits for the answer any more.
func TestWhatCameLateIsGivenBack(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	short := func(s *provider.RedlockSettings) { s.NodeTimeout = 50 * time.Millisecond }
	one, two := nodes.open(t, short), nodes.open(t)
	_ = redlockTakeAtLast(t, one, "s").Release(t.Context())
	nodes.awaitLocks("s", 0)
	nodes.Pause()
	if _, err := one.Acquire(t.Context(), provider.Request{Session: "s", Lease: redlockAmple}); err == nil {
		t.Error("granted, though all nodes are frozen")
	}
	time.Sleep(300 * time.Millisecond) // the first attempt to give it back has failed
	nodes.Resume()
	redlockTake(t, two, "s").release()
	nodes.awaitLocks("s", 0)
}

func TestARedlockReleaseWakesThoseWhoWait(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	patient := func(s *provider.RedlockSettings) { s.BackoffMin, s.BackoffMax = time.Hour, time.Hour }
	one, two := nodes.open(t), nodes.open(t, patient)
	h := redlockTake(t, one, "s")
	granted := make(chan struct{})
	go func() {
		defer close(granted)
		if next, err := two.Acquire(context.Background(), provider.Request{Session: "s", Lease: redlockAmple}); err == nil {
			_ = next.Release(context.Background())
		}
	}()
	harness.Eventually(t, 0, func() bool {
		for _, c := range nodes.clients {
			if c.PubSubNumSub(t.Context(), redlockPrefix+"wake:s").Val()[redlockPrefix+"wake:s"] != 1 {
				return false
			}
		}
		return true
	}, "a waiter listens at every node")
	h.release()
	select {
	case <-granted:
	case <-time.After(redlockPatience):
		t.Error("a waiter was not woken")
	}
}

// A proxy whose clients take a session one after the other is the first to know that it is free. Without giving way it has
// ten to twenty turns for each of a proxy that is farther away, else two.
func TestAProxyThatAlwaysHasSomebodyInLineLetsOthersIn(t *testing.T) {
	nodes := startRedlockNodes(t, 3)
	busy, far := nodes.open(t), harness.StartNetwork(t, nodes.addrs(), harness.WithDelay(5*time.Millisecond))
	other := locktest.Proxy{Locker: openRedlock(t, far.Addrs()), Network: far}
	over := make(chan struct{})
	turns := make(chan int)
	go func() {
		n := 0
		defer func() { turns <- n }()
		for {
			select {
			case <-over:
				return
			default:
			}
			h, err := busy.Acquire(context.Background(), provider.Request{Session: "s", Lease: redlockAmple})
			if err != nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
			_ = h.Release(context.Background())
			n++
		}
	}()
	const asked = 20
	for range asked {
		redlockTake(t, other, "s").release()
	}
	close(over)
	if n := <-turns; n > 6*asked {
		t.Errorf("one proxy had %d turns while the other had %d", n, asked)
	}
}

func TestRedlockCostsTwoRoundTripsAndOneToRelease(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	p := nodes.open(t)
	trips := func() int { return redlockNetwork(p).RoundTrips() / 3 }
	var taken, renewed, released int
	// A connection that opens, or a script that a node does not have yet, costs more.
	harness.Eventually(t, 0, func() bool {
		before := trips()
		h := redlockTake(t, p, "s")
		time.Sleep(20 * time.Millisecond) // the third node answers, too
		taken, before = trips()-before, trips()
		if err := h.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		renewed, before = trips()-before, trips()
		h.release()
		nodes.awaitLocks("s", 0)
		time.Sleep(20 * time.Millisecond)
		released = trips() - before
		return taken == 2 && renewed == 1 && released == 1
	}, "two round trips to take, one to renew, one to release")
}

// A user with the rights that README names, and with each of them missing.
func TestRedlockNeedsFewRights(t *testing.T) {
	t.Parallel()
	nodes := startRedlockNodes(t, 3)
	for _, c := range nodes.clients {
		rights := []any{"acl", "setuser", "locks", "on", ">secret", "~" + redlockPrefix + "*", "&" + redlockPrefix + "wake:*"}
		for _, command := range strings.Fields("eval evalsha get set del exists pexpire pttl time publish subscribe unsubscribe ping client|setname") {
			rights = append(rights, "+"+command)
		}
		if err := c.Do(t.Context(), rights...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	login := func(s *provider.RedlockSettings) { s.Username, s.Password = "locks", "secret" }
	one, two := nodes.open(t, login), nodes.open(t, login)
	h := redlockTake(t, one, "s")
	waiter := make(chan error, 1)
	go func() {
		_, err := two.Acquire(context.Background(), provider.Request{Session: "s", Lease: redlockAmple})
		waiter <- err
	}()
	harness.Eventually(t, 0, func() bool {
		return nodes.clients[0].PubSubNumSub(t.Context(), redlockPrefix+"wake:s").Val()[redlockPrefix+"wake:s"] == 1
	}, "the waiter listens")
	if err := errors.Join(one.Check(t.Context()), h.Renew(t.Context())); err != nil {
		t.Error(err)
	}
	h.release()
	if err := <-waiter; err != nil {
		t.Error(err)
	}
	stranger := nodes.open(t, func(s *provider.RedlockSettings) { s.Username, s.Password = "locks", "wrong" })
	if err := stranger.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("Check with a wrong password returns %v", err)
	}
}

func TestRedlockOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	server, proxy := ca.issue("server"), ca.issue("proxy")
	var urls []string
	for range 3 {
		port := strconv.Itoa(harness.FreePort(t))
		harness.StartRedis(t, harness.WithArgs("--tls-port", port, "--tls-ca-cert-file", ca.file, "--tls-cert-file", server.cert, "--tls-key-file", server.key))
		urls = append(urls, "rediss://127.0.0.1:"+port)
	}
	with := func(ca string, own pair) provider.Locker {
		return openRedlock(t, nil, func(s *provider.RedlockSettings) {
			s.Nodes, s.TLSCA, s.TLSCert, s.TLSKey, s.RestartDelay = urls, ca, own.cert, own.key, 0
		})
	}
	redlockTake(t, locktest.Proxy{Locker: with(ca.file, proxy)}, "s").release()
	for name, locker := range map[string]provider.Locker{
		"an unknown authority": with("", proxy), "no certificate": with(ca.file, pair{}), "a stranger's": with(ca.file, newAuthority(t, "other").issue("me")),
	} {
		if err := locker.Check(t.Context()); err == nil {
			t.Errorf("Check finds nothing amiss with %s", name)
		}
	}
}

// redlockTaken is a hold of a test's.
type redlockTaken struct {
	provider.Hold
	t        *testing.T
	returned time.Time
}

func (h *redlockTaken) release() {
	h.t.Helper()
	if err := h.Release(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func redlockTake(t *testing.T, p locktest.Proxy, session string) *redlockTaken {
	t.Helper()
	return redlockTakeFor(t, p, session, redlockAmple)
}

func redlockTakeFor(t *testing.T, p locktest.Proxy, session string, lease time.Duration) *redlockTaken {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), redlockPatience)
	defer cancel()
	h, err := p.Acquire(ctx, provider.Request{Session: session, Holder: "a test", Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	return &redlockTaken{h, t, time.Now()}
}

// eventuallyAcquired tries again when there is an error.
func redlockTakeAtLast(t *testing.T, p locktest.Proxy, session string) *redlockTaken {
	t.Helper()
	var h *redlockTaken
	harness.Eventually(t, 0, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), redlockPatience)
		defer cancel()
		hold, err := p.Acquire(ctx, provider.Request{Session: session, Lease: redlockAmple})
		if err == nil {
			h = &redlockTaken{hold, t, time.Now()}
		}
		return err == nil
	}, "a session is granted")
	return h
}

func redlockNetwork(p locktest.Proxy) harness.Network {
	n, _ := p.Network.(harness.Network)
	return n
}

func redlockRelay(p locktest.Proxy, i int) *harness.Relay { return redlockNetwork(p)[i] }
