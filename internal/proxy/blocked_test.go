package proxy

import (
	"slices"
	"testing"
)

// line is a sleeper a letter, in the order in which they came; capitals only read.
type line map[string]*sleeper

func (l line) woken() (names []string) {
	for name, s := range l {
		select {
		case <-s.wake:
			names = append(names, name)
		default:
		}
	}
	slices.Sort(names)
	return names
}

func TestAWriteWakesReadersAndTheFirstOfEachGroup(t *testing.T) {
	var b blocked
	l := line{
		"a": newSleeper([]uint64{1}, false, 0), "R": newSleeper([]uint64{1}, true, 0), "b": newSleeper([]uint64{1, 2}, false, 0),
		"g": newSleeper([]uint64{1}, false, 7), "h": newSleeper([]uint64{1}, false, 7), "S": newSleeper([]uint64{2}, true, 0),
	}
	for _, name := range []string{"a", "R", "b", "g", "h", "S"} {
		b.join(l[name])
	}
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"another key", func() { b.written([]uint64{3}) }, nil},
		{"a write of 1", func() { b.written([]uint64{1}) }, []string{"R", "a", "g"}},
		{"a write of 2", func() { b.written([]uint64{2}) }, []string{"S", "b"}},
		{"a write of both", func() { b.written([]uint64{1, 2}) }, []string{"R", "S", "a", "b", "g"}},
		{"a is served", func() { b.leave(l["a"]) }, []string{"R", "b", "g"}},
		{"g is served", func() { b.leave(l["g"]) }, []string{"R", "b", "h"}},
		{"all others leave", func() { b.leave(l["R"]); b.leave(l["S"]); b.leave(l["h"]) }, []string{"b", "h"}},
		{"so does b", func() { b.leave(l["b"]) }, nil},
	} {
		if step.do(); !slices.Equal(l.woken(), step.want) {
			t.Errorf("%s: not just %v are woken", step.name, step.want)
		}
	}
	if len(b.lines) > 0 {
		t.Errorf("%d lines are left", len(b.lines))
	}
}

func TestWhoeverIsFirstInALineAsks(t *testing.T) {
	var b blocked
	one, other, both, reader := newSleeper([]uint64{1}, false, 0), newSleeper([]uint64{2}, false, 0), newSleeper([]uint64{1, 2}, false, 0), newSleeper([]uint64{1}, true, 0)
	for _, s := range []*sleeper{one, other, both, reader} {
		b.join(s)
	}
	turns := func(want ...bool) {
		t.Helper()
		for i, s := range []*sleeper{one, other, both, reader} {
			if len(b.lines[s.keys[0]]) > 0 && slices.Contains(b.lines[s.keys[0]], s) && b.turn(s) != want[i] {
				t.Errorf("sleeper %d asks: %v", i, !want[i])
			}
		}
	}
	turns(true, true, false, true)
	b.leave(other)
	turns(true, false, true, true)
}
