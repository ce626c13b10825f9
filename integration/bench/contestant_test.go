package bench

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// script is a crowd that has done what is said.
type script struct {
	spells []spell
	err    error
}

func (s script) work(context.Context, time.Duration) ([]spell, error) { return s.spells, s.err }

func TestATurnCountsWhatAllClientsDid(t *testing.T) {
	ms := time.Millisecond
	c := &contestant{way: way{name: "some"}, cycles: make([]int, 2), acked: 2, crowd: script{spells: []spell{
		{took: []time.Duration{10 * ms, 20 * ms, 900 * ms}, inTime: 2, last: 400 * ms, gaveUp: 1}, {took: []time.Duration{500 * ms}, inTime: 1, last: 500 * ms},
	}}}
	if err := c.turn(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if got := c.rate.median(); got != 6 { // three in half a second
		t.Errorf("%v cycles a second", got)
	}
	if c.acked != 6 || c.gaveUp != 1 || c.fairness() != 3 || len(c.took) != 4 {
		t.Errorf("acknowledged %d, gave up %d, fairness %v, took %v", c.acked, c.gaveUp, c.fairness(), c.took)
	}
}

func TestATurnWithoutACycleIsAnError(t *testing.T) {
	for name, crowd := range map[string]script{"nothing was done": {spells: make([]spell, 2)}, "broken": {err: errors.New("broken")}} {
		c := &contestant{way: way{name: "some"}, cycles: make([]int, 2), crowd: crowd}
		if err := c.turn(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), "some") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAProgramIsAskedForTurnsAndBelieved(t *testing.T) {
	var asked strings.Builder
	answer := `{"clients": [{"took": [1.5], "gaveUp": 2, "inTime": 1, "last": 250}]}` + "\n" + `{"error": "no lock"}` + "\nnonsense\n"
	p := &program{in: &asked, out: bufio.NewReader(strings.NewReader(answer))}
	spells, err := p.work(t.Context(), 400*time.Millisecond)
	if err != nil || len(spells) != 1 || spells[0].took[0] != 1500*time.Microsecond || spells[0].gaveUp != 2 || spells[0].inTime != 1 || spells[0].last != 250*time.Millisecond {
		t.Errorf("got %+v (%v)", spells, err)
	}
	for _, want := range []string{"no lock", "nonsense"} {
		if _, err := p.work(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
	if _, err := p.work(t.Context(), time.Second); !errors.Is(err, io.EOF) {
		t.Errorf("at its end: %v", err)
	}
	if asked.String() != "400\n1000\n1000\n1000\n" {
		t.Errorf("it was asked %q", asked.String())
	}
}
