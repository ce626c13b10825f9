package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

var errDown = errors.New("the store is down")

// fake is a Provider in memory. It does what the scripts of package tokenstore do, by the bubble's
// clock, and writes down what it was asked.
type fake struct {
	m *Manager // hears of hand-overs, unless deaf

	mu       sync.Mutex
	sessions map[string]*session
	calls    []call
	deaf     bool                     // nobody listens: a hand-over reaches no waiter
	lenient  bool                     // the check is the usual one: any token above the last one stored
	down     map[string]bool          // these calls fail
	gates    map[string]chan struct{} // these calls wait there, answered and not yet returned
	silent   map[string]bool          // these calls get no answer before their context ends
	given    bool                     // a lock provider elsewhere grants
	stamps   uint64                   // tokens that looks have made then
	base     uint64                   // that grants count from, after a migration
}

// session is one session's fence record.
type session struct {
	grant     uint64 // newest; 0: the record is missing
	unused    bool   // the newest is nobody's, where grants come from elsewhere
	lost      uint64 // newest before the record was lost: the clock has gone on
	storedFor uint64 // last token stored
	storedSeq uint64
	hold      *hold
	queue     []entry
}

type hold struct {
	grant  uint64
	waiter string // set while a hand-over is reserved
	until  time.Time
	holder tokenstore.Holder
}

type entry struct {
	waiter string
	claim  *tokenstore.Claim
}

// call is one call that the fake got.
type call struct {
	name   string
	at     time.Time
	waiter string // Begin, Leave
	grant  uint64 // Begin (expected), Renew, Release
	flag   bool   // Renew: resume; Release: revoke
}

func newFake() *fake {
	return &fake{sessions: map[string]*session{}, down: map[string]bool{}, silent: map[string]bool{}, gates: map[string]chan struct{}{}}
}

// arrive notes a call and has it fail as it shall. It is called without mu.
func (f *fake) arrive(ctx context.Context, c call) error {
	c.at = time.Now()
	f.mu.Lock()
	f.calls = append(f.calls, c)
	down, silent := f.down[c.name], f.silent[c.name]
	f.mu.Unlock()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if down {
		return errDown
	}
	return ctx.Err()
}

// fail makes the named calls fail from now on, or work again.
func (f *fake) fail(down bool, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.down[name] = down
	}
}

// ignore leaves the named calls without an answer from now on, or answers them again.
func (f *fake) ignore(silent bool, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		f.silent[name] = silent
	}
}

// keepBack keeps the answers to the named call back until the returned function is called.
func (f *fake) keepBack(name string) (release func()) {
	gate := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gates[name] = gate
	return func() { close(gate) }
}

// wait is an answer's way back.
func (f *fake) wait(name string) {
	f.mu.Lock()
	gate := f.gates[name]
	f.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

// made returns the calls of a name so far.
func (f *fake) made(name string) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var made []call
	for _, c := range f.calls {
		if c.name == name {
			made = append(made, c)
		}
	}
	return made
}

func (f *fake) at(r *tokenstore.Record) *session {
	key := r.Keys()[0]
	if f.sessions[key] == nil {
		f.sessions[key] = &session{}
	}
	return f.sessions[key]
}

// newer is the next grant.
func (s *session) newer() uint64 { return max(s.grant+1, s.lost+1, uint64(time.Now().UnixMicro())) }

// held returns the hold, if its lease has not ended and its grant is the newest.
func (s *session) held() *hold {
	if s.hold == nil || s.hold.grant != s.grant || !time.Now().Before(s.hold.until) {
		return nil
	}
	return s.hold
}

// current reports whether what was read on a basis is current.
func (s *session) current(b tokenstore.Basis) bool {
	return s.grant == b.Grant || b.Grant == 0 && b.Stored == tokenstore.Stamp{Grant: s.storedFor, Seq: s.storedSeq}
}

// look is a read's that takes no hold.
func (f *fake) look(r *tokenstore.Record) tokenstore.Token {
	if f.given {
		f.lookGiven(r)
		return f.token(r)
	}
	f.mu.Lock()
	s := f.at(r)
	if s.grant == 0 {
		s.grant = s.newer()
	}
	if s.storedFor == 0 { // so that no other record has this token
		s.storedFor = s.grant
	}
	f.mu.Unlock()
	return f.token(r)
}

func (s *session) occupy(c *tokenstore.Claim, waiter string, lease time.Duration) {
	now := time.Now()
	s.hold = &hold{
		grant: s.grant, waiter: waiter, until: now.Add(lease),
		holder: tokenstore.Holder{Identity: c.Identity, Owner: c.Owner, Grant: s.grant, Since: now},
	}
}

// handOver gives the session to the first in line. It calls the manager back with mu held, as
// Woken must not block.
func (f *fake) handOver(s *session) {
	for len(s.queue) > 0 {
		first := s.queue[0]
		s.queue = s.queue[1:]
		if f.deaf {
			continue
		}
		s.grant = s.newer()
		s.occupy(first.claim, first.waiter, tokenstore.Reservation)
		f.m.Woken(first.waiter, s.grant)
		return
	}
}

func (s *session) place(waiter string) int {
	return slices.IndexFunc(s.queue, func(e entry) bool { return e.waiter == waiter })
}

func (f *fake) Begin(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, waiter string, expected tokenstore.Basis) (tokenstore.Begin, error) {
	if err := f.arrive(ctx, call{name: "begin", waiter: waiter, grant: expected.Grant}); err != nil {
		return tokenstore.Begin{}, err
	}
	b := f.begin(r, c, waiter, expected)
	f.wait("begin")
	return b, nil
}

func (f *fake) begin(r *tokenstore.Record, c *tokenstore.Claim, waiter string, expected tokenstore.Basis) tokenstore.Begin {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	granted := func(continuous bool) tokenstore.Begin {
		if at := s.place(waiter); waiter != "" && at >= 0 {
			s.queue = slices.Delete(s.queue, at, at+1)
		}
		b := tokenstore.Begin{Granted: true, Grant: s.grant, Continuous: continuous}
		if s.storedFor == s.grant {
			b.Seq = s.storedSeq
		}
		return b
	}
	if h := s.held(); h != nil && h.holder.Owner == c.Owner {
		h.waiter, h.until = "", time.Now().Add(c.Lease)
		return granted(s.current(expected))
	}
	if s.held() == nil && len(s.queue) > 0 && s.queue[0].waiter != waiter {
		f.handOver(s)
	}
	if s.held() == nil {
		current := s.grant > 0 && s.current(expected)
		s.grant = s.newer()
		s.occupy(c, "", c.Lease)
		return granted(current)
	}
	ahead := s.place(waiter)
	if waiter != "" && ahead < 0 {
		ahead = len(s.queue)
		s.queue = append(s.queue, entry{waiter, c})
	}
	return tokenstore.Begin{Holder: s.hold.holder, LeaseLeft: time.Until(s.hold.until), Ahead: max(ahead, 0)}
}

func (f *fake) Renew(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64, resume bool) (tokenstore.Holder, error) {
	if err := f.arrive(ctx, call{name: "renew", grant: grant, flag: resume}); err != nil {
		return tokenstore.Holder{}, err
	}
	defer f.wait("renew")
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	h := s.held()
	switch {
	case s.grant != grant && h != nil:
		return h.holder, tokenstore.ErrLost
	case s.grant != grant:
		return tokenstore.Holder{Grant: s.grant}, tokenstore.ErrLost
	case h != nil:
		h.until = time.Now().Add(c.Lease)
	case resume:
		s.occupy(c, "", c.Lease)
	default:
		return tokenstore.Holder{}, tokenstore.ErrLapsed
	}
	return tokenstore.Holder{}, nil
}

func (f *fake) Release(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64, revoke bool) error {
	if err := f.arrive(ctx, call{name: "release", grant: grant, flag: revoke}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	if s.grant != grant {
		return nil
	}
	if h := s.held(); h != nil && h.holder.Owner != c.Owner {
		return nil
	}
	s.hold = nil
	if revoke {
		if f.given {
			s.grant++
			s.unused = true
		} else {
			s.grant = s.newer()
		}
	}
	f.handOver(s)
	return nil
}

func (f *fake) Leave(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, waiter string) error {
	if err := f.arrive(ctx, call{name: "leave", waiter: waiter}); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	if at := s.place(waiter); at >= 0 && s.queue[at].claim.Owner == c.Owner && s.queue[at].claim.Identity == c.Identity {
		s.queue = slices.Delete(s.queue, at, at+1)
		return nil
	}
	if h := s.held(); h != nil && h.waiter == waiter {
		s.hold = nil
		f.handOver(s)
	}
	return nil
}

func (f *fake) Line(ctx context.Context, r *tokenstore.Record) ([]tokenstore.Place, error) {
	if err := f.arrive(ctx, call{name: "line"}); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var line []tokenstore.Place
	s := f.at(r)
	if h := s.held(); h != nil && h.waiter != "" {
		line = append(line, tokenstore.Place{Waiter: h.waiter, Owner: h.holder.Owner, Identity: h.holder.Identity})
	}
	for _, e := range s.queue {
		line = append(line, tokenstore.Place{Waiter: e.waiter, Owner: e.claim.Owner, Identity: e.claim.Identity})
	}
	return line, nil
}

// token is what a look at the record finds.
func (f *fake) token(r *tokenstore.Record) tokenstore.Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(r)
	return tokenstore.Token{Grant: s.grant, StoredGrant: s.storedFor, StoredSeq: s.storedSeq}
}

// commit is a write's check and settlement; write is the command between them, and tells whether
// it did its work. It returns the grant under which it was stored.
func (f *fake) commit(c tokenstore.Commit, write func() bool) (tokenstore.Check, uint64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(c.Record)
	h := s.held()
	verdict := tokenstore.Good
	switch {
	case c.Grant == 0 && f.given:
		panic("a write without a grant")
	case c.Grant > 0 && s.grant == 0:
		verdict = tokenstore.Missing
	case c.Grant > 0 && f.lenient && (c.Grant > s.storedFor || c.Grant == s.storedFor && c.Seq > s.storedSeq):
	case c.Grant > 0 && s.grant != c.Grant:
		verdict = tokenstore.Superseded
	case c.Grant > 0 && s.storedFor == c.Grant && s.storedSeq >= c.Seq:
		verdict = tokenstore.Stored
	case c.Grant > 0:
	case c.Read != (tokenstore.Stamp{}) && s.grant == 0:
		verdict = tokenstore.Missing
	case c.Read != (tokenstore.Stamp{}) && c.Read != (tokenstore.Stamp{Grant: s.storedFor, Seq: s.storedSeq}):
		verdict = tokenstore.Changed
	case h != nil && h.holder.Owner != c.Claim.Owner:
		verdict = tokenstore.Held
	case len(s.queue) > 0:
		verdict = tokenstore.Queued
	}
	if verdict != tokenstore.Good {
		check := tokenstore.Check{Verdict: verdict, Token: tokenstore.Token{Grant: s.grant, StoredGrant: s.storedFor, StoredSeq: s.storedSeq}}
		if h != nil {
			check.Holder = h.holder
		}
		return check, 0, false
	}
	applied := write()
	seq := c.Seq
	if c.Grant == 0 {
		s.grant, seq = s.newer(), 1
	}
	if f.lenient {
		s.storedFor = max(c.Grant, s.storedFor)
	} else {
		s.storedFor = s.grant
	}
	s.storedSeq = seq
	if c.Keep {
		s.occupy(c.Claim, "", c.Claim.Lease)
	} else {
		s.hold = nil
		f.handOver(s)
	}
	return tokenstore.Check{Verdict: tokenstore.Good}, s.grant, applied
}

// lapse ends the hold on a session as the end of its lease does.
func (f *fake) lapse(r *tokenstore.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(r).hold = nil
}

// flush loses the record.
func (f *fake) flush(r *tokenstore.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[r.Keys()[0]] = &session{}
}

// holder is who holds a session, or nobody.
func (f *fake) holder(r *tokenstore.Record) tokenstore.Holder {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.at(r).held(); h != nil {
		return h.holder
	}
	return tokenstore.Holder{}
}

// queued is the line at a session.
func (f *fake) queued(r *tokenstore.Record) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var line []string
	for _, e := range f.at(r).queue {
		line = append(line, e.waiter)
	}
	return line
}
