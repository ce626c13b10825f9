package metrics

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// What became of sessions that were asked for, beside the reasons for which lines are left.
const (
	acquiredAtOnce  = "granted"
	acquiredWaiting = "waited"
)

const (
	success = "success"
	failure = "failure"
)

// guard has the instruments that events count in.
type guard struct {
	acquisitions, released, broken, renewals, deadlocks metric.Int64Counter
	refusals, wouldRefuse, recordsLost, unguarded       metric.Int64Counter
	queue                                               metric.Int64UpDownCounter
	waits, holds, operations                            *histogram
}

func (m *Metrics) guardInstruments(meter metric.Meter) (err error) {
	g := &m.guard
	counters(meter, &err,
		instrument{&g.acquisitions, "acquisitions", "{acquisition}", "Sessions asked for, by what came of it."},
		instrument{&g.released, "holds.released", "{hold}", "Holds that were given back, by reason."},
		instrument{&g.broken, "holds.broken", "{hold}", "Holds that were lost in the middle, by reason."},
		instrument{&g.renewals, "renewals", "{renewal}", "Leases renewed: success, or failure, when it is tried again."},
		instrument{&g.deadlocks, "deadlocks", "{deadlock}", "Commands that gave way since clients waited for each other's sessions."},
		instrument{&g.refusals, "refusals", "{command}", "Guarded commands refused, by the first word of the error, and reason."},
		instrument{&g.wouldRefuse, "would_refuse", "{command}", "Commands in mode observe that would have been refused, by reason: each loses an update."},
		instrument{&g.recordsLost, "records.lost", "{record}", "Fence records found missing while a hold depended on them: is the store evicting?"},
		instrument{&g.unguarded, "unguarded.writes", "{write}", "Guarded writes that went through unguarded, since the lock provider could not be asked."},
	)
	if err != nil {
		return err
	}
	g.queue, err = meter.Int64UpDownCounter("fence_proxy.queue.length", metric.WithUnit("{command}"),
		metric.WithDescription("Commands in line for a session now."))
	if err != nil {
		return err
	}
	if g.waits, err = m.histogramOf(meter, "fence_proxy.wait.duration", "How long commands stood in line for a session, however that ended.",
		longBuckets, "rule", "mode"); err != nil {
		return err
	}
	if g.holds, err = m.histogramOf(meter, "fence_proxy.hold.duration", "How long sessions were held.", longBuckets, "rule", "mode"); err != nil {
		return err
	}
	g.operations, err = m.histogramOf(meter, "fence_proxy.operation.duration", "Round trips of guarded commands, without their time in line: read, commit.",
		callBuckets, "rule", "mode", "operation")
	return err
}

// ruleMode is what series of the guard are told apart by.
type ruleMode struct{ rule, mode string }

// ruled are the series of one rule in one mode. It does not change.
type ruled struct {
	acquisitions, released, broken, refused, wouldRefuse map[string]count // by outcome or reason; refused by error and reason
	renewed, notRenewed, deadlocks, recordsLost          count
	unguarded                                            count
	queue                                                gauge
	waits, holds, reads, commits                         series
}

// count is one series of a counter.
type count struct {
	counter metric.Int64Counter
	with    []metric.AddOption
}

func (c *count) add() {
	if c.counter != nil {
		c.counter.Add(context.Background(), 1, c.with...)
	}
}

// gauge is one series of what goes up and down.
type gauge struct {
	gauge metric.Int64UpDownCounter
	with  []metric.AddOption
}

func (g *gauge) add(n int64) { g.gauge.Add(context.Background(), n, g.with...) }

// ruled returns the series of a rule in a mode; all of them are there from then on. There are as many as are configured.
func (m *Metrics) ruled(rule, mode string) *ruled {
	key := ruleMode{rule, mode}
	if r, ok := m.rules.Load(key); ok {
		return r.(*ruled)
	}
	r, _ := m.rules.LoadOrStore(key, m.newRuled(key))
	return r.(*ruled)
}

func (m *Metrics) newRuled(key ruleMode) *ruled {
	g := &m.guard
	rule, mode := attribute.String("rule", key.rule), attribute.String("mode", key.mode)
	of := func(counter metric.Int64Counter, labels ...attribute.KeyValue) count {
		c := count{counter, []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(append(labels, rule, mode)...))}}
		c.counter.Add(context.Background(), 0, c.with...)
		return c
	}
	all := func(counter metric.Int64Counter, label string, values ...string) map[string]count {
		by := map[string]count{}
		for _, v := range values {
			by[v] = of(counter, attribute.String(label, v))
		}
		return by
	}
	r := &ruled{
		acquisitions: all(g.acquisitions, "outcome", slices.Concat([]string{acquiredAtOnce, acquiredWaiting, event.Held, event.Full}, event.QuitReasons())...),
		released:     all(g.released, "reason", event.ReleaseReasons()...),
		broken:       all(g.broken, "reason", event.BreakReasons()...),
		refused:      map[string]count{},
		renewed:      of(g.renewals, attribute.String("outcome", success)),
		notRenewed:   of(g.renewals, attribute.String("outcome", failure)),
		deadlocks:    of(g.deadlocks),
		recordsLost:  of(g.recordsLost),
		unguarded:    of(g.unguarded),
		queue:        gauge{g.queue, []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(rule, mode))}},
		waits:        g.waits.of(key.rule, key.mode), holds: g.holds.of(key.rule, key.mode),
		reads: g.operations.of(key.rule, key.mode, "read"), commits: g.operations.of(key.rule, key.mode, "commit"),
	}
	r.queue.add(0)
	if key.mode == "observe" {
		r.wouldRefuse = all(g.wouldRefuse, "reason", event.FencedReasons()...)
	}
	refused := func(word string, reasons ...string) {
		for _, reason := range reasons {
			r.refused[word+reason] = of(g.refusals, attribute.String("error", word), attribute.String("reason", reason))
		}
	}
	refused(event.Fenced, event.FencedReasons()...)
	refused(event.Locked, event.LockedReasons()...)
	refused(event.Down, "")
	refused(event.Unknown, "")
	refused(event.Denied, "")
	return r
}

// Rule begins a rule's counts at 0.
func (m *Metrics) Rule(name, mode string) {
	m.ruled(name, mode)
	m.clientsPooling.Add(context.Background(), 0, metric.WithAttributes(attribute.String("rule", name), attribute.String("mode", mode)))
}

// one returns the series of a value, or that of others.
func one(by map[string]count, value string) *count {
	c, ok := by[value]
	if !ok {
		c = by[event.Other]
	}
	return &c
}

// Event implements event.Sink.
func (m *Metrics) Event(e *event.Event) {
	r := m.ruled(e.Rule, e.Mode)
	switch e.Kind {
	case event.Wait:
		r.queue.add(1)
	case event.Quit:
		r.queue.add(-1)
		r.waits.took(e.Took)
		one(r.acquisitions, e.Reason).add()
		if e.Reason == event.Deadlock {
			r.deadlocks.add()
		}
	case event.Grant:
		outcome := acquiredAtOnce
		if e.Took > 0 {
			outcome = acquiredWaiting
			r.queue.add(-1)
			r.waits.took(e.Took)
		}
		one(r.acquisitions, outcome).add()
		if e.Reason == event.RecordLost {
			r.recordsLost.add()
		}
	case event.Read:
		r.reads.took(e.Took)
	case event.Commit:
		r.commits.took(e.Took)
		if e.Reason == event.Unguarded {
			r.unguarded.add()
		}
	case event.Refuse:
		word := e.Error
		if word == "" { // the client has heard of it in another way
			word = event.Fenced
		}
		one(r.refused, word+e.Reason).add()
		if e.Error == event.Locked && (e.Reason == event.Held || e.Reason == event.Full) {
			one(r.acquisitions, e.Reason).add()
		}
	case event.WouldRefuse:
		one(r.wouldRefuse, e.Reason).add()
	case event.Renew:
		if e.Reason == "" {
			r.renewed.add()
		} else {
			r.notRenewed.add()
		}
	case event.Release:
		if e.Took > 0 { // else it was acquired elsewhere
			r.holds.took(e.Took)
		}
		one(r.released, e.Reason).add()
	case event.Break:
		r.holds.took(e.Took)
		one(r.broken, e.Reason).add()
		if e.Reason == reasonMissing {
			r.recordsLost.add()
		}
	}
}

const reasonMissing = "missing"
