package demo

import (
	"testing"
	"time"
)

func TestLostIsWhatWasAcknowledgedAndIsNotInTheValue(t *testing.T) {
	t.Parallel()
	agents := []*agent{
		{acknowledged: []string{"a1", "a2", "a3"}, longest: 3 * time.Second},
		{acknowledged: []string{"b1", "b2"}, refused: 2, locked: 1, longest: time.Second},
	}
	got := count(agents, []string{"b1", "a2", "stranger"}, time.Minute)
	want := Figures{
		Acknowledged: 5, Kept: 2, Lost: 3, Entries: 3, Refused: 2, Locked: 1,
		LongestWait: 3 * time.Second, Elapsed: time.Minute,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
