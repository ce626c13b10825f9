package app

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/admin"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/status"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// showWaiters is how many of those in line at the store are named.
const showWaiters = 10

// inUse is the configuration in force, and how it came to be.
type inUse struct {
	cfg     *config.Config
	file    string
	since   time.Time
	restart []string // options that the file has otherwise, which count from the next start on
	failed  string   // why the file as it is now was not taken over
}

// use has everybody see a configuration from now on.
func (p *Proxy) use(s inUse) { p.used.Store(&s) }

// inForce is the configuration in force, for any goroutine.
func (p *Proxy) inForce() *config.Config { return p.used.Load().cfg }

// terms are a rule's times, for the status page.
func (p *Proxy) terms(name string) status.Terms {
	r := rule.ForUnguarded()
	if name != rule.Unguarded {
		i := slices.IndexFunc(p.inForce().Rules, func(r *rule.Rule) bool { return r.Name == name })
		if i < 0 {
			return status.Terms{}
		}
		r = p.inForce().Rules[i]
	}
	return status.Terms{Lease: r.Lease, MaxHold: r.MaxHold, Wait: r.Wait}
}

// about is what the proxy says of itself.
func (p *Proxy) about() admin.About {
	cfg := p.inForce()
	a := admin.About{
		Name: cfg.Name, Version: p.version, Started: p.started, Listen: cfg.Listen, Upstream: cfg.Upstream.Redacted(), Provider: cfg.Lock.Provider,
		Clients: p.server.Clients(), Holds: p.locks.Holds(), Draining: p.server.Draining(), Rules: []string{},
	}
	for _, r := range cfg.Rules {
		if r.Guards() {
			a.Rules = append(a.Rules, r.Name)
		}
	}
	return a
}

// shownConfig is the configuration in force as it may be shown.
func (p *Proxy) shownConfig() (admin.Config, error) {
	s := p.used.Load()
	text, err := s.cfg.YAML()
	return admin.Config{
		File: s.file, Loaded: s.since, Restart: append([]string{}, s.restart...), Failed: s.failed, Contents: s.cfg.Show(), YAML: text,
	}, err
}

// overseer is the guard, to whoever looks at it from the admin address.
type overseer struct{ *Proxy }

// Explain implements admin.Guard.
func (p overseer) Explain(ctx context.Context, db int, key string) (admin.Explanation, error) {
	e := admin.Explanation{Key: status.Printable(key), DB: db, Terms: map[string]string{}, Keys: []string{}, Learned: []admin.Learned{}}
	if strings.HasPrefix(key, tokenstore.Prefix) {
		e.Why = "the key is reserved for fence records: clients are refused with FENCEDENIED"
		return e, nil
	}
	r := p.inForce().Set.Match([]byte(key))
	switch {
	case r == nil:
		e.Why = "no rule's prefix fits: what is said about the key passes through, but for FENCE.*"
	case !r.Guards():
		e.Why = "rule " + strconv.Quote(r.Name) + " exempts the prefix " + strconv.Quote(r.Prefix) + ": what is said about the key passes through, but for FENCE.*"
	default:
		e.Guarded, e.Why = true, "the prefix "+strconv.Quote(r.Prefix)+" of the rule is the longest that fits"
	}
	e.Mode = string(rule.ModePass)
	if !e.Guarded {
		r = rule.ForUnguarded()
	} else {
		e.Mode = string(r.Mode)
		e.Terms = termsText(r)
	}
	e.Rule, e.Session = r.Name, string(r.AppendSession(nil, []byte(key)))
	at := AreaOf(p.cfg, r, db, []byte(key))
	e.Keys = tokenstore.NewRecord(at, e.Rule, e.Session).Keys()
	record, err := p.Record(ctx, status.Name{DB: db, Slot: string(at.Slot), Rule: e.Rule, Session: e.Session})
	if e.Record = &record; err != nil {
		e.Record, e.Trouble = nil, err.Error()
	}
	for _, l := range p.locks.Learnt() {
		if l.Rule == e.Rule {
			e.Learned = append(e.Learned, admin.Learned{
				Client: status.Printable(l.Client), Command: l.Command, Locks: l.Locks, Reads: l.Reads, Percent: int(100*l.Share + .5), Delay: status.Millis(l.Delay),
			})
		}
	}
	slices.SortFunc(e.Learned, func(a, b admin.Learned) int {
		return cmp.Or(strings.Compare(a.Client, b.Client), strings.Compare(a.Command, b.Command))
	})
	return e, nil
}

func termsText(r *rule.Rule) map[string]string {
	return map[string]string{
		"owner": string(r.Owner), "client_by": string(r.ClientBy), "readers": strings.Join(r.Readers, ", "), "writes_per_read": string(r.WritesPerRead),
		"scripts": string(r.Scripts), "wait": rule.Text(r.Wait), "lease": rule.Text(r.Lease), "max_hold": rule.Text(r.MaxHold), "idle": rule.Text(r.Idle),
		"linger": rule.Text(r.Linger), "record_ttl": rule.Text(r.RecordTTL), "locked_error": r.LockedError, "durability": r.Durability.String(),
	}
}

func recordOf(session status.Name) *tokenstore.Record {
	return tokenstore.NewRecord(tokenstore.Area{DB: session.DB, Slot: tokenstore.Slot(session.Slot)}, session.Rule, session.Session)
}

// Record implements admin.Guard.
func (p overseer) Record(ctx context.Context, session status.Name) (admin.Record, error) {
	r := recordOf(session)
	i, err := p.store.Inspect(ctx, r, showWaiters)
	if err != nil {
		return admin.Record{}, err
	}
	shown := admin.Record{
		Grant: i.Token.Grant, StoredGrant: i.Token.StoredGrant, StoredSeq: i.Token.StoredSeq, Provider: i.Token.Provider,
		Holder: holderParty(i.Holder), LeaseLeft: status.Millis(i.LeaseLeft), Waiting: i.Waiting + p.locks.Asking(r), Waiters: []status.Party{},
	}
	for _, w := range i.First {
		shown.Waiters = append(shown.Waiters, identityParty(w))
	}
	return shown, nil
}

func identityParty(i tokenstore.Identity) status.Party {
	return status.Party{Proxy: status.Printable(i.Proxy), Client: status.Printable(i.Client), Name: status.Printable(i.Name)}
}

// holderParty is a holder as it is shown; nil if nobody holds.
func holderParty(h tokenstore.Holder) *status.Party {
	if !h.Held() {
		return nil
	}
	shown := identityParty(h.Identity)
	shown.Owner, shown.Grant, shown.Since = status.Printable(h.Owner), h.Grant, &h.Since
	return &shown
}

// Break implements admin.Guard. It is FENCE.BREAK, for who has the token.
func (p overseer) Break(ctx context.Context, session status.Name, grant uint64, by string) (admin.Broken, error) {
	r := recordOf(session)
	if grant > 0 {
		i, err := p.store.Inspect(ctx, r, 0)
		if err != nil {
			return admin.Broken{}, err
		}
		if i.Holder.Held() && i.Holder.Grant != grant {
			return admin.Broken{}, admin.ErrOther
		}
	}
	terms := rule.ForUnguarded()
	if i := slices.IndexFunc(p.inForce().Rules, func(r *rule.Rule) bool { return r.Name == session.Rule }); i >= 0 {
		terms = p.inForce().Rules[i]
	}
	claim := tokenstore.NewClaim(tokenstore.ApartPrefix+p.id, tokenstore.Identity{Proxy: p.inForce().Name, Client: by}, terms.Lease, terms.RecordTTL)
	holder, broken, err := p.locks.Break(ctx, r, claim)
	if err != nil {
		return admin.Broken{}, err
	}
	if broken {
		p.status.Broken(session, holder.Grant)
		p.log.Warn("hold broken at the admin address", "rule", session.Rule, "session", session.Session, "grant", holder.Grant,
			"holder", holder.Client, "name", holder.Name, "proxy", holder.Proxy, "by", by)
	}
	return admin.Broken{Broken: broken, Holder: holderParty(holder)}, nil
}
