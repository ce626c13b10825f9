package lock

import (
	"context"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// What the fake store does for grants that a lock provider elsewhere gives.

// there reports whether there is a record.
func (s *session) there() bool { return s.grant > 0 || s.storedFor > 0 }

func (f *fake) Register(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64, expected tokenstore.Basis) (tokenstore.Begin, error) {
	if err := f.arrive(ctx, call{name: "register", grant: grant}); err != nil {
		return tokenstore.Begin{}, err
	}
	return f.register(r, c, grant, expected), nil
}

func (f *fake) register(r *tokenstore.Record, c *tokenstore.Claim, grant uint64, expected tokenstore.Basis) tokenstore.Begin {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	if grant += f.base; grant < s.grant || grant == s.grant && !s.unused && expected.Grant != grant {
		return tokenstore.Begin{Behind: true, Newest: s.grant, Above: s.grant}
	}
	b := tokenstore.Begin{
		Granted: true, Grant: grant, Missing: !s.there(),
		Continuous: s.there() && expected != (tokenstore.Basis{}) && s.current(expected),
	}
	if s.storedFor == grant {
		b.Seq = s.storedSeq
	}
	s.grant, s.unused = grant, false
	s.occupy(c, "", c.Lease)
	return b
}

func (f *fake) RenewGrant(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64) (tokenstore.Holder, error) {
	if err := f.arrive(ctx, call{name: "renewgrant", grant: grant}); err != nil {
		return tokenstore.Holder{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	h := s.held()
	if s.grant != grant || h == nil {
		return tokenstore.Holder{Grant: s.grant}, tokenstore.ErrLost
	}
	h.until = time.Now().Add(c.Lease)
	return tokenstore.Holder{}, nil
}

func (f *fake) ReleaseGrant(ctx context.Context, r *tokenstore.Record, _ *tokenstore.Claim, grant uint64) (tokenstore.Holder, bool, error) {
	if err := f.arrive(ctx, call{name: "releasegrant", grant: grant}); err != nil {
		return tokenstore.Holder{}, false, err
	}
	return f.endHold(r, grant)
}

func (f *fake) Break(ctx context.Context, r *tokenstore.Record, _ *tokenstore.Claim) (tokenstore.Holder, bool, error) {
	if err := f.arrive(ctx, call{name: "break"}); err != nil {
		return tokenstore.Holder{}, false, err
	}
	return f.endHold(r, 0)
}

func (f *fake) endHold(r *tokenstore.Record, grant uint64) (tokenstore.Holder, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	h := s.held()
	if h == nil || grant > 0 && s.grant != grant {
		return tokenstore.Holder{}, false, nil
	}
	s.hold = nil
	s.grant++
	s.unused = true
	return h.holder, true, nil
}

func (f *fake) Inspect(ctx context.Context, r *tokenstore.Record, _ int) (tokenstore.Inspection, error) {
	if err := f.arrive(ctx, call{name: "inspect"}); err != nil {
		return tokenstore.Inspection{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	i := tokenstore.Inspection{Token: tokenstore.Token{Grant: s.grant, StoredGrant: s.storedFor, StoredSeq: s.storedSeq}}
	if h := s.held(); h != nil {
		i.Holder, i.LeaseLeft = h.holder, time.Until(h.until)
	}
	return i, nil
}

func (f *fake) Tell(ctx context.Context, h tokenstore.Holder) error {
	return f.arrive(ctx, call{name: "tell", waiter: h.Owner, grant: h.Grant})
}

// migrate gives the record to a provider that counts anew.
func (f *fake) migrate(r *tokenstore.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	f.base = max(s.grant, s.storedFor) + 1
	*s = session{grant: f.base, storedFor: f.base}
}

// lookGiven is look where grants come from elsewhere: a token of its own for each record.
func (f *fake) lookGiven(r *tokenstore.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.at(r); s.storedFor == 0 {
		f.stamps++
		s.storedFor = 1<<50 + f.stamps
	}
}
