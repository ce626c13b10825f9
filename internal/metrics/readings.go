package metrics

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Readings are what others count by themselves. What counts must never count backwards.
type Readings struct {
	Learned       map[string]Learned // by rule
	Standing      []Standing
	Limits        []Limit
	Downstream    Bytes
	Upstream      Bytes
	Own           Links // upstream connections of clients
	Shared        Links // … by clients
	ConnectErrors int64 // upstream connections that could not be made
	Failovers     int64 // another node became the primary
	ScriptReloads int64
	Batches       Batches
}

// Learned is what mode auto has decided under one rule, and what it knows.
type Learned struct {
	Locked, Looked int64 // reads
	Kinds, Locking int64 // kinds of reads that are known, and those of them that lock
}

// Standing are the holds that stand under one rule.
type Standing struct {
	Rule, Mode string
	Holds      int64
	Oldest     float64 // age in seconds
}

// Limit is what a rule sets, for alerts to compare with.
type Limit struct {
	Rule, Mode, Name string
	Seconds          float64
}

// Bytes are those that went one way and the other.
type Bytes struct{ Received, Sent int64 }

// Links are connections.
type Links struct{ Up, Opened, Lost int64 }

// Reads has the metrics ask for readings whenever they are read.
func (m *Metrics) Reads(ask func() Readings) error {
	if m.provider == nil {
		return nil
	}
	o := observed{meter: m.provider.Meter(scope)}
	reads := o.counter("auto.reads", "{read}", "Reads in mode auto, by what was decided for them: lock, look.")
	kinds := o.gauge("auto.kinds", "{kind}", "Kinds of reads that mode auto knows, by what it would decide for them: lock, look.")
	holds := o.gauge("holds", "{hold}", "Sessions that are held now.")
	oldest := o.seconds("hold.age.max", "How long the longest of the present holds has stood.")
	limits := o.seconds("rule.limit", "What a rule sets: wait, lease, max_hold, idle.")
	io := o.counter("network.io", "By", "Bytes with clients (downstream) and with Redis (upstream): receive, transmit.")
	up := o.gauge("upstream.connections", "{connection}", "Connections to Redis that are up: clients' own, shared ones.")
	opened := o.counter("upstream.connections.opened", "{connection}", "Connections to Redis that were made.")
	lost := o.counter("upstream.connections.lost", "{connection}", "Connections to Redis that broke, or that it has closed.")
	failed := o.counter("upstream.connect.errors", "{connection}", "Connections to Redis that could not be made.")
	failovers := o.counter("upstream.failovers", "{failover}", "How often another Redis became the primary, behind Sentinels.")
	scripts := o.counter("script.reloads", "{reload}", "How often Redis had forgotten the scripts and was sent them again.")
	if o.err != nil {
		return fmt.Errorf("make the metrics: %w", o.err)
	}
	if err := m.registry.Register(batchCollector(func() Batches { return ask().Batches })); err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	_, err := o.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		r := ask()
		for rule, l := range r.Learned {
			with := func(decision string) metric.ObserveOption { return labelled("rule", rule, "decision", decision) }
			to.ObserveInt64(reads, l.Locked, with("lock"))
			to.ObserveInt64(reads, l.Looked, with("look"))
			to.ObserveInt64(kinds, l.Locking, with("lock"))
			to.ObserveInt64(kinds, l.Kinds-l.Locking, with("look"))
		}
		for _, s := range r.Standing {
			to.ObserveInt64(holds, s.Holds, labelled("rule", s.Rule, "mode", s.Mode))
			to.ObserveFloat64(oldest, s.Oldest, labelled("rule", s.Rule, "mode", s.Mode))
		}
		for _, l := range r.Limits {
			to.ObserveFloat64(limits, l.Seconds, labelled("rule", l.Rule, "mode", l.Mode, "limit", l.Name))
		}
		for side, b := range map[string]Bytes{"downstream": r.Downstream, "upstream": r.Upstream} {
			to.ObserveInt64(io, b.Received, labelled("side", side, "direction", "receive"))
			to.ObserveInt64(io, b.Sent, labelled("side", side, "direction", "transmit"))
		}
		for kind, l := range map[string]Links{"own": r.Own, "shared": r.Shared} {
			to.ObserveInt64(up, l.Up, labelled("kind", kind))
			to.ObserveInt64(opened, l.Opened, labelled("kind", kind))
			to.ObserveInt64(lost, l.Lost, labelled("kind", kind))
		}
		to.ObserveInt64(failed, r.ConnectErrors)
		to.ObserveInt64(failovers, r.Failovers)
		to.ObserveInt64(scripts, r.ScriptReloads)
		return nil
	}, reads, kinds, holds, oldest, limits, io, up, opened, lost, failed, failovers, scripts)
	if err != nil {
		return fmt.Errorf("make the metrics: %w", err)
	}
	return nil
}

// observed makes instruments that are asked for their values, until one can't be made.
type observed struct {
	meter metric.Meter
	err   error
}

func (o *observed) counter(name, unit, help string) (c metric.Int64ObservableCounter) {
	if o.err == nil {
		c, o.err = o.meter.Int64ObservableCounter("fence_proxy."+name, metric.WithUnit(unit), metric.WithDescription(help))
	}
	return c
}

func (o *observed) gauge(name, unit, help string) (g metric.Int64ObservableUpDownCounter) {
	if o.err == nil {
		g, o.err = o.meter.Int64ObservableUpDownCounter("fence_proxy."+name, metric.WithUnit(unit), metric.WithDescription(help))
	}
	return g
}

func (o *observed) seconds(name, help string) (g metric.Float64ObservableGauge) {
	if o.err == nil {
		g, o.err = o.meter.Float64ObservableGauge("fence_proxy."+name, metric.WithUnit("s"), metric.WithDescription(help))
	}
	return g
}

// labelled are labels and their values in turn.
func labelled(pairs ...string) metric.ObserveOption {
	set := make([]attribute.KeyValue, 0, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		set = append(set, attribute.String(pair[0], pair[1]))
	}
	return metric.WithAttributes(set...)
}
