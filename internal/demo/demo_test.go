package demo_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/demo"
)

// quick are options of a demo that takes two seconds.
func quick() demo.Options {
	o := demo.Default()
	o.Agents, o.Updates, o.Think = 3, 4, 5*time.Millisecond
	return o
}

// run runs a demo and checks its figures: each of them is known, or bounded, beforehand.
func run(t *testing.T, o demo.Options) demo.Result {
	t.Helper()
	r, err := demo.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	all := o.Agents * o.Updates
	if f := r.Straight; f.Acknowledged != all || f.Lost < 1 || f.Kept+f.Lost != all || f.Entries != f.Kept || f.Refused != 0 || f.Locked != 0 {
		t.Errorf("straight at Redis: %+v, of %d updates", f, all)
	}
	if f := r.Through; f.Acknowledged != all || f.Lost != 0 || f.Kept != all || f.Entries != all || f.Refused < 1 {
		t.Errorf("through fence-proxy: %+v, of %d updates", f, all)
	}
	return r
}

func TestUpdatesAreLostStraightAtRedisAndNotThroughTheProxies(t *testing.T) {
	t.Parallel()
	o := quick()
	var out bytes.Buffer
	o.Out = &out
	run(t, o)
	for _, want := range []string{"3 agents work", "straight at Redis     12 ", "through fence-proxy   12 ", "none was lost", "FENCED"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the report:\n%s", want, &out)
		}
	}
}

func TestObserverCountsWhatTheDemoHasLost(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Agents, o.Updates, o.Observe = 5, 8, true
	var out bytes.Buffer
	o.Out = &out
	r := run(t, o) // under the rules that the observer has proposed nothing is lost
	if r.Observed.Lost != int64(r.Straight.Lost) || r.Observed.Unsure != 0 {
		t.Errorf("the observer counted %d, of %d the order is unsure; %d were lost", r.Observed.Lost, r.Observed.Unsure, r.Straight.Lost)
	}
	if len(r.Observed.Rules) != 1 || !strings.Contains(out.String(), `    rules:`) {
		t.Errorf("rules %+v in\n%s", r.Observed.Rules, &out)
	}
}

func TestTwoAgentsWithOneUpdateEachAreEnoughToLoseOne(t *testing.T) {
	t.Parallel()
	o := demo.Default()
	o.Agents, o.Updates, o.Think = 2, 1, 0
	if r := run(t, o); r.Straight.Lost != 1 {
		t.Errorf("lost %d of 2 updates", r.Straight.Lost)
	}
}

// interrupter ends a demo when it tells of something.
type interrupter struct {
	at        string
	interrupt func()
}

func (i interrupter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), i.at) {
		time.AfterFunc(150*time.Millisecond, i.interrupt) // in the middle of the race
	}
	return len(p), nil
}

var errInterrupt = errors.New("interrupted by the test")

// interrupted runs a demo until shortly after it has told of something.
func interrupted(t *testing.T, o demo.Options, at string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	o.Out = interrupter{at: at, interrupt: func() { cancel(errInterrupt) }}
	start := time.Now()
	if _, err := demo.Run(ctx, o); !errors.Is(err, errInterrupt) {
		t.Errorf("interrupted at %q, the demo returned %v", at, err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("interrupted at %q, the demo went on for %v", at, d)
	}
}

func TestInterruptedDemoEnds(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"First straight", "Then through"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			o := quick()
			o.Updates, o.Think = 1000, time.Second
			if at == "Then through" {
				o = quick()
			}
			interrupted(t, o, at)
		})
	}
}

func TestReportThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Updates, o.Out = 1, closed{}
	if _, err := demo.Run(t.Context(), o); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

var errClosed = errors.New("closed")

// closed is a writer that has gone.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errClosed }

func TestUnreachableUpstreamIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	o := quick()
	o.Upstream = "redis://:s3cret@127.0.0.1:1"
	_, err := demo.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

func TestOptionsThatCannotWorkAreRefusedInTermsOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for flag, edit := range map[string]func(*demo.Options){
		"--agents: 1 ":       func(o *demo.Options) { o.Agents = 1 },
		"--agents: 65 ":      func(o *demo.Options) { o.Agents = 65 },
		"--updates: 0 ":      func(o *demo.Options) { o.Updates = 0 },
		"--updates: 1001 ":   func(o *demo.Options) { o.Updates = 1001 },
		"--think: -1s ":      func(o *demo.Options) { o.Think = -time.Second },
		"--think: 1m ":       func(o *demo.Options) { o.Think = time.Minute },
		"--upstream: is not": func(o *demo.Options) { o.Upstream = "localhost" },
	} {
		o := demo.Default()
		edit(&o)
		if _, err := demo.Run(t.Context(), o); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("%s: got %v", flag, err)
		}
	}
	o := demo.Default()
	if err := o.Check(); err != nil {
		t.Error(err)
	}
}
