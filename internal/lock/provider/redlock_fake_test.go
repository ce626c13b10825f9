package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fakeNode is what a Redis is to redlock: the scripts, in Go. TestTheFakeNodeIsLikeRedis holds it to the real ones.
type fakeNode struct {
	faults fakeFaults
	now    func() time.Time // its wall clock
	mute   bool             // it says that it is 1970

	mu       sync.Mutex
	locks    map[string]fakeLock // by session
	counters map[string]uint64
	memory   int64               // Unix ms, or -1 without one
	dead     map[string]struct{} // by id
	hears    map[string]map[*fakeLink]bool
}

type fakeLock struct {
	value   string
	expires int64 // Unix ms
}

// fakeFaults are what the scripts may do wrong.
type fakeFaults struct {
	raisesBlindly       bool // a counter is set, not raised
	raisesForAnybody    bool // whoever has the lock
	joinsBlindly        bool // a renewal takes a free lock though there was another grant
	forgetsThatItForgot bool // a node that has lost its memory takes part at once
	releasesBlindly     bool // whoever has the lock
}

func newFakeNode(now func() time.Time) *fakeNode {
	n := &fakeNode{now: now, hears: map[string]map[*fakeLink]bool{}}
	n.forget()
	return n
}

// forget is a restart without a disk, or FLUSHALL.
func (n *fakeNode) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.locks, n.counters, n.memory, n.dead = map[string]fakeLock{}, map[string]uint64{}, -1, map[string]struct{}{}
}

func (n *fakeNode) run(s *redlockScript, key redlockKey, args []any) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.now()
	ms := at.UnixMilli()
	text := func(i int) string { return fmt.Sprint(args[i]) }
	number := func(i int) int64 { v, _ := strconv.ParseInt(text(i), 10, 64); return v }
	_, dead := n.dead[key.id]
	switch s {
	case redlockCheck:
		if left := n.sitsOut(ms, number(0)); left > 0 {
			return []string{"out", strconv.FormatInt(left, 10)}
		}
		return []string{"in", "0"}
	case redlockTake:
		if left := n.sitsOut(ms, number(2)); left > 0 {
			return []string{"out", strconv.FormatInt(left, 10)}
		}
		if dead {
			return []string{"dead"}
		}
		lock, has := n.lock(key.session, ms)
		if !has {
			n.locks[key.session] = fakeLock{text(0), ms + number(1)}
			micros := at.UnixMicro()
			if n.mute {
				micros = 0
			}
			return []string{"taken", strconv.FormatUint(n.counters[key.session], 10), strconv.FormatInt(micros/1e6, 10), strconv.FormatInt(micros%1e6, 10)}
		}
		fields := strings.Fields(lock.value)
		most, _ := strconv.ParseInt(fields[1], 10, 64)
		if lock.expires-ms > most {
			lock.expires = ms + most
			n.locks[key.session] = lock
		}
		return []string{"held", fields[0], strconv.FormatInt(lock.expires-ms, 10)}
	case redlockRaise:
		grant := uint64(number(1))
		lock, _ := n.lock(key.session, ms)
		switch {
		case lock.value != text(0) && !n.faults.raisesForAnybody:
			return []string{"gone"}
		case n.counters[key.session] >= grant && !n.faults.raisesBlindly:
			return []string{"behind"}
		}
		n.counters[key.session] = grant
		return []string{"raised"}
	case redlockRenew:
		grant, word := uint64(number(1)), "kept"
		lock, has := n.lock(key.session, ms)
		if lock.value != text(0) {
			newer := n.counters[key.session] > grant && !n.faults.joinsBlindly
			if has || newer || n.sitsOut(ms, number(4)) > 0 || dead {
				return []string{"gone"}
			}
			word = "joined"
		}
		n.locks[key.session] = fakeLock{text(0), ms + number(3)}
		n.counters[key.session] = max(n.counters[key.session], grant)
		return []string{word}
	case redlockRelease:
		if number(2) > 0 {
			n.dead[key.id] = struct{}{}
		}
		lock, has := n.lock(key.session, ms)
		if lock.value != text(0) && !(has && n.faults.releasesBlindly) {
			return []string{"gone", "0"}
		}
		delete(n.locks, key.session)
		told := 0
		if text(1) != "" {
			told = len(n.hears[key.session])
			for l := range n.hears[key.session] {
				l.tell(key)
			}
		}
		return []string{"released", strconv.Itoa(told)}
	}
	panic("no such script: " + s.name)
}

// lock deletes one that has expired when it is looked at, as Redis does.
func (n *fakeNode) lock(session string, ms int64) (fakeLock, bool) {
	lock, has := n.locks[session]
	if has && lock.expires < ms {
		delete(n.locks, session)
		return fakeLock{}, false
	}
	return lock, has
}

func (n *fakeNode) sitsOut(ms, delay int64) int64 {
	if n.memory == 0 || n.faults.forgetsThatItForgot {
		return 0
	}
	if n.memory < 0 || n.memory > ms+delay {
		n.memory = ms + delay
	}
	if n.memory <= ms {
		n.memory = 0
		return 0
	}
	return n.memory - ms
}

// fakeLink is one proxy's way to a node. Messages are delayed and lost on it, in both directions, and
// what has been sent arrives though nobody waits for its answer any more.
type fakeLink struct {
	node    *fakeNode
	l       *redlock
	chance  *chance
	tasks   *sync.WaitGroup
	weather weather

	mu  sync.Mutex
	cut bool
}

// weather is how bad links are.
type weather struct {
	late, lost float64 // the part of messages that come late, or never
}

// chance is a source of accidents that repeats itself for its seed.
type chance struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newChance(seed uint64) *chance { return &chance{r: rand.New(rand.NewPCG(seed, 1))} }

func (c *chance) happens(p float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.Float64() < p
}

func (c *chance) between(from, to time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return from + time.Duration(c.r.Int64N(int64(to-from)+1))
}

func (c *chance) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

// travel is how long a message takes; false means for ever.
func (l *fakeLink) travel() (time.Duration, bool) {
	switch {
	case l.isCut() || l.chance.happens(l.weather.lost):
		return 0, false
	case l.chance.happens(l.weather.late):
		return l.chance.between(0, 3*exploreLease), true
	default:
		return l.chance.between(100*time.Microsecond, 3*time.Millisecond), true
	}
}

func (l *fakeLink) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

func (l *fakeLink) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
}

func (l *fakeLink) ask(ctx context.Context, s *redlockScript, key redlockKey, args ...any) ([]string, error) {
	answer := make(chan []string, 1)
	l.tasks.Go(func() {
		there, ok := l.travel()
		if !ok {
			return
		}
		time.Sleep(there)
		fields := l.node.run(s, key, args)
		back, ok := l.travel()
		if !ok {
			return
		}
		time.Sleep(back)
		answer <- fields
	})
	select {
	case fields := <-answer:
		return fields, nil
	case <-ctx.Done():
		return nil, errors.New("no answer")
	}
}

func (l *fakeLink) listen(session string, on bool) {
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	if on {
		if l.node.hears[session] == nil {
			l.node.hears[session] = map[*fakeLink]bool{}
		}
		l.node.hears[session][l] = true
	} else {
		delete(l.node.hears[session], l)
	}
}

func (l *fakeLink) tell(key redlockKey) {
	l.tasks.Go(func() {
		if d, ok := l.travel(); ok {
			time.Sleep(d)
			l.l.heard(key.session, key.id)
		}
	})
}

func (l *fakeLink) close() {}
