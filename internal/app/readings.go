package app

import (
	"context"
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/metrics"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// readings is what the metrics ask for when they are looked at.
func (p *Proxy) readings() metrics.Readings {
	r := metrics.Readings{
		Learned: p.learned(), Standing: p.standing(), Limits: p.limits(), ScriptReloads: p.store.Reloads(),
		Own: links(&p.endpoint.Meter.Own), Shared: links(&p.endpoint.Meter.Shared), ConnectErrors: p.endpoint.Meter.Failed(), Failovers: p.way.failovers(),
	}
	r.Upstream.Received, r.Upstream.Sent = p.endpoint.Meter.Bytes.Bytes()
	r.Batches, r.Downstream.Received, r.Downstream.Sent = p.server.Traffic()
	return r
}

func links(l *upstream.Links) (counts metrics.Links) {
	counts.Up, counts.Opened, counts.Lost = l.Counts()
	return counts
}

// learned is what mode auto has decided and knows.
func (p *Proxy) learned() map[string]metrics.Learned {
	all := map[string]metrics.Learned{}
	for rule, d := range p.locks.Decisions() {
		all[rule] = metrics.Learned{Locked: int64(d.Locked), Looked: int64(d.Looked)}
	}
	for _, l := range p.locks.Learnt() {
		of := all[l.Rule]
		if of.Kinds++; l.Locks {
			of.Locking++
		}
		all[l.Rule] = of
	}
	return all
}

// standing is what is held, under the rules that there are and those that there were.
func (p *Proxy) standing() []metrics.Standing {
	type of struct{ rule, mode string }
	known := map[of]bool{}
	var all []metrics.Standing
	for _, s := range p.locks.Standing() {
		known[of{s.Rule, string(s.Mode)}] = true
		all = append(all, metrics.Standing{Rule: s.Rule, Mode: string(s.Mode), Holds: int64(s.Holds), Oldest: s.Oldest.Seconds()})
	}
	for _, r := range p.server.Rules() {
		if r.Guards() && !known[of{r.Name, string(r.Mode)}] {
			all = append(all, metrics.Standing{Rule: r.Name, Mode: string(r.Mode)})
		}
	}
	return all
}

// limits are what the rules set.
func (p *Proxy) limits() (all []metrics.Limit) {
	for _, r := range p.server.Rules() {
		if !r.Guards() {
			continue
		}
		for name, d := range map[string]time.Duration{"wait": r.Wait, "lease": r.Lease, "max_hold": r.MaxHold, "idle": r.Idle} {
			all = append(all, metrics.Limit{Rule: r.Name, Mode: string(r.Mode), Name: name, Seconds: d.Seconds()})
		}
	}
	return all
}

// timedStore is a store whose calls about locks are counted as those of a lock provider.
type timedStore struct {
	*tokenstore.Store
	metrics *metrics.Metrics
}

func (s *timedStore) Begin(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, waiter string, expected tokenstore.Basis) (tokenstore.Begin, error) {
	start := time.Now()
	b, err := s.Store.Begin(ctx, r, c, waiter, expected)
	s.called(ctx, "acquire", start, err)
	return b, err
}

func (s *timedStore) Renew(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64, resume bool) (tokenstore.Holder, error) {
	start := time.Now()
	h, err := s.Store.Renew(ctx, r, c, grant, resume)
	s.called(ctx, "renew", start, err)
	return h, err
}

func (s *timedStore) Release(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64, revoke bool) error {
	start := time.Now()
	err := s.Store.Release(ctx, r, c, grant, revoke)
	s.called(ctx, "release", start, err)
	return err
}

// called counts a call. That a lease has ended or a hold is lost is an answer, and who asks no more has not been failed.
func (s *timedStore) called(ctx context.Context, call string, start time.Time, err error) {
	if errors.Is(err, tokenstore.ErrLost) || errors.Is(err, tokenstore.ErrLapsed) || errors.Is(ctx.Err(), context.Canceled) {
		err = nil
	}
	s.metrics.ProviderCalled(call, time.Since(start), err)
}
