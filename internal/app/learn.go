package app

import "github.com/fence-proxy/fence-proxy/internal/metrics"

// learned is what mode auto has decided and knows, for the metrics.
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
