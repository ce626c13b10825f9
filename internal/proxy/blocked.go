package proxy

import (
	"slices"
	"sync"
)

// blocked are the clients whose guarded command waits for something to come into a key, in the order in
// which they came. A write through this proxy wakes them; what others write, they find by asking.
type blocked struct {
	mu    sync.Mutex
	lines map[uint64][]*sleeper // by key, as a hash
}

// sleeper is one of them.
type sleeper struct {
	wake  chan struct{}
	keys  []uint64
	reads bool   // it takes nothing away, so it need not wait for those before it
	group uint64 // whom it competes with, apart from those of other groups
}

func newSleeper(keys []uint64, reads bool, group uint64) *sleeper {
	return &sleeper{wake: make(chan struct{}, 1), keys: keys, reads: reads, group: group}
}

func (s *sleeper) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// join puts a sleeper behind those that wait for its keys.
func (b *blocked) join(s *sleeper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lines == nil {
		b.lines = map[uint64][]*sleeper{}
	}
	for _, key := range s.keys {
		b.lines[key] = append(b.lines[key], s)
	}
}

// leave takes a sleeper out and wakes those that come next.
func (b *blocked) leave(s *sleeper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range s.keys {
		line := slices.DeleteFunc(b.lines[key], func(x *sleeper) bool { return x == s })
		if len(line) == 0 {
			delete(b.lines, key)
			continue
		}
		b.lines[key] = line
		rouse(line)
	}
}

// written wakes those that a write of keys may concern.
func (b *blocked) written(keys []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		rouse(b.lines[key])
	}
}

// rouse wakes all readers of a line, and the first of each group.
func rouse(line []*sleeper) {
	for i, s := range line {
		if first(line[:i], s) {
			s.rouse()
		}
	}
}

// first reports whether nobody before s takes what it waits for.
func first(before []*sleeper, s *sleeper) bool {
	return s.reads || !slices.ContainsFunc(before, func(x *sleeper) bool { return !x.reads && x.group == s.group })
}

// turn reports whether a sleeper is the one to ask: the first in one of its lines.
func (b *blocked) turn(s *sleeper) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(s.keys, func(key uint64) bool {
		line := b.lines[key]
		return first(line[:slices.Index(line, s)], s)
	})
}
