package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// State is a sequence's state; the package comment has the diagram.
type State uint8

// The states.
const (
	Free State = iota
	Held
	Ended
	Broken
	Seen
)

// Sequence is what one owner does on one session. Between Turn and Leave its caller has it to
// itself, but for the keeper, which acts only when nobody is inside.
type Sequence struct {
	Record *tokenstore.Record
	Claim  *tokenstore.Claim
	Rule   *rule.Rule

	manager *Manager
	owner   atomic.Pointer[Owner] // changes when a client turns out to pool its connections (group.go)
	group   *Group                // the client that the connection belongs to, for rules of which that may matter
	gate    chan struct{}         // holds one element while somebody is inside

	reading atomic.Bool // whoever is inside reads: the answer may have reached its client
	lined   atomic.Bool // … and waits in line, so that it has not
	listed  bool        // it is in group's index; under the group's mutex

	waiting atomic.Int64 // how many wait at the gate
	lending lending
	turns   atomic.Uint64 // how many commands have had one

	mu      sync.Mutex
	state   State
	grant   uint64           // of the hold, or of the one that ended
	seq     uint64           // of the last write under grant
	seen    tokenstore.Stamp // of Seen: the last token stored when it was read
	made    time.Time        // when a look made sure that the record stays
	reads   reads
	pending bool // reads under grant that no write has followed: any write of the session depends on them
	broken  *FencedError
	writing []uint64         // keys of the write under way
	behind  map[any][]uint64 // by connection: keys of the writes behind its read that waits for stragglers
	fewer   chan struct{}    // closed when there may be fewer stragglers; nil: nobody waits for that
	last    said             // the last read

	// In mode auto:
	kind     *kind         // of the read under way
	trials   []*trial      // the reads that a write may follow
	patience time.Duration // how long the hold waits for one; 0: idle
	settled  bool          // a sibling has committed (span.go)
	vain     bool          // the hold has turned out to be for a read alone
	must     bool          // the next read takes the session, since a write was refused
	steps    bool          // the next read does not

	since      time.Time // when the hold began
	used       time.Time // last guarded command
	leaseUntil time.Time // when the lease ends unless renewed
	renewAt    time.Time
	lingering  bool // the hold is kept after a commit
	timer      *time.Timer
	due        time.Time // when timer fires; zero: it doesn't run

	given provider.Hold // granted by the lock provider elsewhere, and not registered at the store yet
	hold  provider.Hold // of Held, at the lock provider elsewhere
	over  chan struct{} // closed when hold is given back
	above uint64        // the provider's grants have to be above it
	tries int           // grants in a row that were not

	outlasts time.Duration // of a grant apart: how long it outlives its proxy at the lock provider elsewhere, at most

	apart   bool             // nobody's: see Apart
	orphan  bool             // its connection has closed; under the group's mutex
	dropped bool             // no longer the owner's: see Anew
	members map[any]struct{} // connections with a part in the sequence, for owners that have several

	story telling // what is told of it (tell.go)
}

// How says how a read gets its grant.
type How uint8

const (
	// Acquire begins a sequence: take the session or wait for it.
	Acquire How = iota
	// Verify goes on with a hold: only look whether its grant is still the newest.
	Verify
	// Resume goes on with a hold whose lease may have ended: take it up again, without waiting.
	Resume
	// Look takes no hold: only see which token was stored last.
	Look
)

// BeforeRead says how to read, and what the reads so far stand on. The error is a *FencedError: the
// sequence was broken, and this reports it.
// command names the client's command, for mode auto.
func (s *Sequence) BeforeRead(ctx context.Context, command string, now time.Time) (How, tokenstore.Basis, error) {
	return s.before(ctx, command, now, false)
}

// BeforeTake is BeforeRead for one who takes the session whatever the rule's mode: it does not say Look.
func (s *Sequence) BeforeTake(ctx context.Context, now time.Time) (How, tokenstore.Basis, error) {
	return s.before(ctx, "", now, true)
}

func (s *Sequence) before(ctx context.Context, command string, now time.Time, take bool) (How, tokenstore.Basis, error) {
	if err := s.siblingBroken(); err != nil {
		return 0, tokenstore.Basis{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.story.asked = now
	if s.apart {
		return Verify, tokenstore.Basis{Grant: s.grant}, s.disowned()
	}
	s.outlive(ctx, now)
	if !take { // who takes it may be about to write
		s.writing = nil
	}
	switch s.state {
	case Broken:
		return 0, tokenstore.Basis{}, s.report()
	case Held:
		s.used = now
		if now.Before(s.leaseUntil) || s.Elsewhere() { // whose hold ends by itself, and tells (Lost)
			return Verify, s.basis(), nil
		}
		return Resume, s.basis(), nil
	}
	if take || s.decide(command, now) {
		return Acquire, s.basis(), nil
	}
	return Look, s.basis(), nil
}

// Granted takes in a begin's answer. sent is when the begin was sent: the lease counts from then.
func (s *Sequence) Granted(b tokenstore.Begin, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart {
		return
	}
	resumed := s.state == Held && b.Continuous
	late := resumed && !sent.Before(s.leaseUntil)
	if s.state == Held && !resumed {
		s.tellBreak(ReasonSuperseded, b.Grant, tokenstore.Holder{})
	}
	s.story.asked = sent
	if !b.Continuous {
		s.reads.supersede(s.pending)
	}
	if !resumed {
		s.since = sent
		s.lingering, s.settled = false, false
	}
	s.take()
	if since := s.spansSince(); !since.IsZero() {
		s.since = since // the hold is not the sequence's alone
	}
	s.grant, s.seq = b.Grant, b.Seq
	s.must, s.vain = false, false
	s.used = sent
	s.setState(Held)
	lease := s.Claim.Lease
	if b.Lease > 0 {
		lease = min(lease, b.Lease)
	}
	s.renewed(sent, lease)
	switch {
	case !resumed:
		s.tellGrant(b)
	case late:
		s.tell(event.Event{Kind: event.Renew})
	}
}

// Current compares a verified record with the hold. The error is a *FencedError: the hold was
// lost, and this reports it.
func (s *Sequence) Current(t tokenstore.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Held && t.Grant == s.grant {
		return nil
	}
	if s.apart {
		return s.stale(t.Grant, tokenstore.Holder{})
	}
	if s.state != Broken {
		s.breakOff(reasonOf(t), t.Grant, tokenstore.Holder{})
	}
	return s.report()
}

// Lost reports that a Resume found the session granted to somebody else.
func (s *Sequence) Lost(newest uint64, holder tokenstore.Holder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Broken {
		s.breakOff(ReasonSuperseded, newest, holder)
	}
	return s.report()
}

func reasonOf(t tokenstore.Token) Reason {
	if t.Grant == 0 {
		return ReasonMissing
	}
	return ReasonSuperseded
}

// Read takes in a read command that was answered under the hold.
func (s *Sequence) Read(command uint64, keys []uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellRead(now)
	if s.apart {
		return
	}
	s.reads.expire(now, s.Rule.MaxHold)
	s.reads.add(command, keys, now)
	s.try(command, now)
	s.steps = false
	s.pending = true
	s.lingering = false // the next sequence has found the hold
	s.used = now
}

// ReadBeside takes in a read command that was answered in the very transaction of a commit and is not
// written by it: what it read is current as long as grant is the newest.
func (s *Sequence) ReadBeside(command uint64, keys []uint64, grant, seq uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart {
		return
	}
	if s.state != Held {
		s.grant, s.seq = grant, seq
		s.setState(Ended)
	}
	s.tellRead(now)
	s.reads.add(command, keys, now)
	s.pending = true
	s.lingering = false
	s.used = now
}

// Write is a write that is about to be sent.
type Write struct {
	Keys []uint64 // the session's keys that it writes, as hashes
	// Unnamed are those of Keys that its owner may have read by a command that did not name them, and for which no
	// session was taken.
	Unnamed []uint64
	// Atomic: the update does not depend on an earlier read, so it is never refused as stale.
	Atomic bool
	// Came is when it had arrived, at the latest: where several tasks share the owner, it does not go back to what was answered later. Zero:
	// not known.
	Came time.Time
}

// Token is what a write presents.
type Token struct {
	Grant, Seq uint64 // Grant 0: it holds nothing. Seq 0: the next one under the grant, which the store counts
	// Read is the token that was the last one stored when the session was read without a hold. The zero Stamp: a
	// blind write, if Grant is 0 as well.
	Read tokenstore.Stamp
	// OrBlind: the write does not depend on what was read under Grant or Read. If the store says that it
	// is superseded, the write goes on blindly.
	OrBlind bool
}

// BeforeWrite returns the token to present. The error is a *FencedError: the write depends on
// reads that are stale, and this reports it.
func (s *Sequence) BeforeWrite(ctx context.Context, w Write, now time.Time) (Token, error) {
	if err := s.siblingBroken(); err != nil {
		return Token{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.story.asked = now
	if s.apart {
		return Token{Grant: s.grant}, s.disowned()
	}
	s.outlive(ctx, now)
	s.reads.expire(now, s.Rule.MaxHold)
	s.writing = w.Keys
	if s.state == Broken {
		return Token{}, s.report()
	}
	if !w.Atomic {
		if s.reads.unread(w.Unnamed) {
			return Token{}, &FencedError{Record: s.Record, Reason: ReasonUnnamed, Grant: s.grant}
		}
		s.followed(now)
		if s.reads.tainted() {
			s.release(ctx, false)
			s.story.why = event.Stale
			s.setState(Ended)
			s.breakOff(ReasonSuperseded, 0, tokenstore.Holder{})
			return Token{}, s.report()
		}
		if s.reads.usedUp(w.Keys, w.Came, s.owner.Load().interleaves.Load()) {
			s.owner.Load().interleaves.Store(true)
			s.stir()
			return Token{}, &FencedError{Record: s.Record, Reason: ReasonUsedUp, Grant: s.grant}
		}
		if s.reads.unsure(w.Keys, now, s.span(), s.owner.Load().Crowded()) {
			s.stir()
			if !s.reads.anyFresh() {
				s.release(ctx, false)
				s.story.why = event.Stale
				s.lapse()
			}
			return Token{}, &FencedError{Record: s.Record, Reason: ReasonUnsure, Grant: s.grant}
		}
	}
	s.used = now
	switch s.state {
	case Held:
		return Token{Grant: s.grant, Seq: s.seq + 1, OrBlind: w.Atomic}, nil
	case Ended:
		return Token{Grant: s.grant, Seq: s.seq + 1, OrBlind: w.Atomic || !s.pending && !s.reads.fresh(w.Keys)}, nil
	case Seen:
		return Token{Seq: 1, Read: s.seen, OrBlind: w.Atomic || !s.pending && !s.reads.fresh(w.Keys)}, nil
	default:
		return Token{Seq: 1}, nil
	}
}

// Keeps reports whether a commit under the hold keeps it.
func (s *Sequence) Keeps() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == Held && (s.Rule.WritesPerRead == rule.Many || s.Rule.Linger > 0)
}

// Committed takes in an applied commit. applied is false when the command itself failed (its own
// error reply): the value is unchanged, so the reads still stand, though the hold was settled.
func (s *Sequence) Committed(c tokenstore.Commit, grant uint64, w Write, applied bool, sent time.Time) {
	settles := false
	defer func() {
		if settles {
			s.settleSpan()
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	settles = applied && !c.Keep && s.shares()
	if applied {
		s.tellCommit(grant, which(&c), "")
	}
	if s.apart {
		return
	}
	s.used, s.writing = sent, nil
	if c.Grant == 0 && c.Read == (tokenstore.Stamp{}) {
		if applied {
			s.reads.write(w.Keys)
		}
		return
	}
	if c.Grant == 0 {
		s.seen = tokenstore.Stamp{Grant: grant, Seq: c.Seq}
	} else {
		s.grant, s.seq = grant, c.Seq
	}
	if c.Keep {
		s.lingering = true
		s.renewed(sent, s.Claim.Lease)
	}
	if applied && s.Rule.WritesPerRead == rule.One {
		if d, ok := s.reads.took(w.Keys, sent); ok {
			s.paced(d)
		}
		s.reads.write(w.Keys)
		s.reads.complete()
		s.pending = false
	}
	if s.story.why = event.Committed; !applied {
		s.story.why = event.InVain
	}
	switch {
	case c.Keep && s.state == Held:
		s.story.why = ""
	case applied && s.Rule.WritesPerRead == rule.One && !s.reads.anyFresh():
		s.setState(Free)
	case c.Grant == 0:
		s.setState(Seen)
	default:
		s.setState(Ended)
	}
}

// Refused takes in a check that refused the write and returns the error that reports it.
func (s *Sequence) Refused(c tokenstore.Check) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart {
		return s.stale(c.Token.Grant, c.Holder)
	}
	reason := Reason(c.Verdict)
	if c.Verdict == tokenstore.Held || c.Verdict == tokenstore.Queued {
		reason = ReasonHeld
	}
	if s.state != Broken {
		s.breakOff(reason, c.Token.Grant, c.Holder)
	}
	return s.report()
}

// Superseded remembers, without reporting it, that the grant is not the newest: a write that may
// goes on blindly, but what was read before is stale.
func (s *Sequence) Superseded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads.supersede(s.pending)
	if s.state == Held {
		s.breakAway(ReasonSuperseded, 0, tokenstore.Holder{}, Free)
		return
	}
	s.setState(Free)
}

// State returns the state.
func (s *Sequence) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// outlive breaks a hold that is past max_hold, for when a paused proxy wakes before its keeper.
func (s *Sequence) outlive(ctx context.Context, now time.Time) {
	if s.state == Held && now.Sub(s.since) >= s.Rule.MaxHold {
		s.release(ctx, true)
		s.breakOff(ReasonMaxHold, 0, tokenstore.Holder{})
	}
}

// breakOff ends the hold in the middle; report tells the owner.
func (s *Sequence) breakOff(reason Reason, newest uint64, holder tokenstore.Holder) {
	s.broken = &FencedError{Record: s.Record, Reason: reason, Grant: s.grant, Newest: newest, Holder: holder}
	if s.state == Held || s.story.doomed {
		s.breakAway(reason, newest, holder, Broken)
		return
	}
	s.setState(Broken)
}

// breakAway goes over to a state without a hold, and tells that the hold was not released but lost.
func (s *Sequence) breakAway(reason Reason, newest uint64, holder tokenstore.Holder, state State) {
	s.tellBreak(reason, newest, holder)
	s.story.doomed = true
	s.setState(state)
	s.story.doomed = false
}

func (s *Sequence) report() error {
	err := s.broken
	s.broken = nil
	s.stir()
	s.must = true // read again, it shall not come to this again
	if s.span() == 0 {
		s.reads.clear()
	} else {
		s.reads.refuse(s.writing)
	}
	s.writing = nil
	number := s.story.number
	s.setState(Free)
	s.story.number, s.story.told = number, true // the refusal is its last step
	return err
}

func (s *Sequence) setState(state State) {
	if (s.state == Held) != (state == Held) {
		n := int64(1)
		if state != Held {
			n = -1
			s.manager.lately.note(s)
			if !s.story.doomed {
				s.tellEnd()
			}
		}
		s.manager.open(n)
		s.owner.Load().held.Add(n)
	}
	if state != Held {
		s.letGo()
	}
	s.state = state
	s.story.why = ""
	if state == Free {
		s.pending = false
		s.story.number = 0
	}
}

// idleAway reports whether nothing would be lost with the sequence.
func (s *Sequence) idleAway(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads.expire(now, s.Rule.MaxHold)
	return s.state == Free && !s.must && !s.reads.tainted() && len(s.reads.keys) == 0
}
