package lock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// The keeper of a sequence is its timer. It renews the lease at a third, and ends the hold at
// linger, idle or max_hold.

// busyRetry is how soon the keeper looks again when somebody was inside the sequence.
const busyRetry = 20 * time.Millisecond

// renewed notes that a lease counts from sent and sets the timer. Called with mu held.
func (s *Sequence) renewed(sent time.Time, lease time.Duration) {
	s.leaseUntil = sent.Add(lease)
	s.renewAt = sent.Add(lease / 3)
	if s.hold != nil {
		s.leaseUntil = s.hold.Until()
		s.renewAt = sent.Add(min(lease, max(s.leaseUntil.Sub(sent), 0)) / 3)
	}
	s.schedule(s.next())
}

// next is when the keeper has something to do.
func (s *Sequence) next() time.Time {
	next := s.since.Add(s.Rule.MaxHold)
	for _, t := range [...]time.Time{s.renewAt, s.used.Add(s.keep())} {
		if t.Before(next) {
			next = t
		}
	}
	return next
}

// keep is how long the hold stands without a guarded command.
func (s *Sequence) keep() time.Duration {
	if s.lingering && s.Rule.Linger > 0 {
		return min(s.Rule.Linger, s.Rule.Idle)
	}
	if s.vain || s.settled {
		return 0
	}
	if s.patience > 0 {
		return min(s.patience, s.Rule.Idle)
	}
	return s.Rule.Idle
}

// schedule makes the timer fire no later than at. A timer that fires early only looks and sets
// itself again, so that a busy sequence seldom touches it.
func (s *Sequence) schedule(at time.Time) {
	if !s.due.IsZero() && !s.due.After(at) {
		return
	}
	s.due = at
	if s.timer == nil {
		s.timer = time.AfterFunc(time.Until(at), s.tick)
	} else {
		s.timer.Reset(time.Until(at))
	}
}

// tick is the keeper's turn.
func (s *Sequence) tick() {
	s.manager.Detach(s.look)
}

func (s *Sequence) look(ctx context.Context) {
	s.mu.Lock()
	s.due = time.Time{}
	if s.state != Held {
		s.mu.Unlock()
		return
	}
	now := time.Now()
	grant, began := s.grant, s.since
	renew := !now.Before(s.renewAt)
	end := !now.Before(s.used.Add(s.keep())) || now.Sub(s.since) >= s.Rule.MaxHold
	s.mu.Unlock()

	switch {
	case end:
		switch in := s.TryEnter(); {
		case !in && renew && now.Sub(began) < s.Rule.MaxHold: // its owner waits for another session
			s.renew(ctx, grant)
			return
		case !in:
			s.again(busyRetry)
			return
		}
		s.end(ctx, time.Now())
		s.Leave()
	case renew:
		s.renew(ctx, grant)
	default:
		s.again(0)
	}
}

// again sets the timer for what is next, but not before pause has passed.
func (s *Sequence) again(pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Held {
		return
	}
	at := s.next()
	if soonest := time.Now().Add(pause); at.Before(soonest) {
		at = soonest
	}
	s.schedule(at)
}

// end ends the hold at linger, idle or max_hold. The caller is inside.
func (s *Sequence) end(ctx context.Context, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state != Held:
	case now.Sub(s.since) >= s.Rule.MaxHold:
		s.log(slog.LevelWarn, "hold reached max_hold and was revoked", "max_hold", s.Rule.MaxHold, "client", s.Claim.Client)
		s.outlive(ctx, now)
	case !now.Before(s.used.Add(s.keep())):
		s.log(slog.LevelDebug, "hold ended without a further command", "after", s.keep())
		why := s.idleness()
		s.release(ctx, false)
		s.story.why = why
		s.lapse()
	default: // used again meanwhile
		s.schedule(s.next())
	}
}

// idleness says why a hold without a further command ends, in a word. Called with mu held.
func (s *Sequence) idleness() string {
	switch {
	case s.lingering && s.Rule.Linger > 0:
		return event.Lingered
	case s.settled:
		return event.Committed
	case s.vain:
		return event.Unwritten
	}
	return event.Idled
}

// lapse ends a hold whose reads may still be written. Called with mu held.
func (s *Sequence) lapse() {
	s.lingering = false
	if s.pending || s.reads.anyFresh() {
		s.setState(Ended)
	} else {
		s.setState(Free)
	}
}

// renew extends the lease; failures are tried again while it lasts, and beyond: as long as nobody
// else has come, the hold is taken up again.
func (s *Sequence) renew(ctx context.Context, grant uint64) {
	if s.Elsewhere() && !s.renewOutside(ctx, grant) {
		return
	}
	sent := time.Now()
	holder, err := s.callRenew(ctx, grant, false)
	if errors.Is(err, tokenstore.ErrLapsed) {
		if !s.TryEnter() { // a commit may just be releasing it
			s.again(busyRetry)
			return
		}
		defer s.Leave()
		if !s.holds(grant) {
			return
		}
		sent = time.Now()
		holder, err = s.callRenew(ctx, grant, true)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Held || s.grant != grant {
		return
	}
	switch {
	case err == nil:
		s.renewed(sent, s.Claim.Lease)
		s.tell(event.Event{Kind: event.Renew})
	case errors.Is(err, tokenstore.ErrLost):
		s.log(slog.LevelWarn, "hold lost", "holder", holder.Client, "newest", holder.Grant)
		reason := ReasonSuperseded
		if holder.Grant == 0 {
			reason = ReasonMissing
		}
		s.breakOff(reason, holder.Grant, holder)
	default:
		s.log(slog.LevelWarn, "lease not renewed, trying again", "left", time.Until(s.leaseUntil).Round(time.Millisecond), "error", err)
		s.renewAt = time.Now().Add(min(s.Claim.Lease/10, time.Second))
		s.schedule(s.next())
		s.tell(event.Event{Kind: event.Renew, Reason: event.Unasked})
	}
}

func (s *Sequence) callRenew(ctx context.Context, grant uint64, resume bool) (tokenstore.Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, min(callTimeout, s.Claim.Lease/3))
	defer cancel()
	return s.manager.provider.Renew(ctx, s.Record, s.Claim, grant, resume)
}

func (s *Sequence) holds(grant uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == Held && s.grant == grant
}

// release gives the hold back. If the store can't be reached, that is owed (owed.go), until the lease ends it. Called
// with mu held by somebody inside; mu is free during the call.
func (s *Sequence) release(ctx context.Context, revoke bool) {
	if s.state != Held {
		return
	}
	grant := s.grant
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	err := s.manager.provider.Release(ctx, s.Record, s.Claim, grant, revoke)
	cancel()
	if err != nil {
		s.manager.Owes(s)
	}
	s.mu.Lock()
	if err != nil {
		s.log(slog.LevelWarn, "hold not released yet", "error", err)
	}
}

// close gives the hold back when no connection has a part in the sequence any more: it tries until
// the lease ends. An owner that has ended does not come back, and what it read is forgotten; one
// that has other connections may still write what it read over this one.
func (s *Sequence) close(ctx context.Context, ended bool) {
	if !s.enter(ctx) {
		return
	}
	defer s.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ended && len(s.members) > 0 {
		return // it came back meanwhile
	}
	if s.timer != nil {
		s.timer.Stop()
		s.due = time.Time{}
	}
	s.giveBack(ctx, event.Closed)
	if ended {
		s.reads.clear()
		s.broken = nil
		s.setState(Free)
	}
}

// giveBack releases the hold, and tries that until the lease ends. why is for who is told. Called with mu held by somebody
// inside; mu is free during the calls.
func (s *Sequence) giveBack(ctx context.Context, why string) {
	for s.state == Held {
		grant, until := s.grant, s.leaseUntil
		s.mu.Unlock()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := s.manager.provider.Release(call, s.Record, s.Claim, grant, false)
		cancel()
		again := err != nil && time.Now().Before(until) && rest(ctx, 100*time.Millisecond)
		s.mu.Lock()
		if !again && s.state == Held {
			s.story.why = why
			s.lapse()
		}
	}
}

// doom breaks the sequence and gives the hold back.
func (s *Sequence) doom(ctx context.Context, reason Reason) {
	if !s.enter(ctx) {
		return
	}
	defer s.Leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Free || s.state == Broken {
		return
	}
	s.giveUp(ctx, reason)
}

// giveUp gives the hold back, if it still stands, and breaks the sequence. Called with mu held by somebody inside.
func (s *Sequence) giveUp(ctx context.Context, reason Reason) {
	s.story.doomed = s.state == Held
	s.giveBack(ctx, "")
	s.breakOff(reason, 0, tokenstore.Holder{})
}

// rest waits for d and reports whether ctx is still good.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (s *Sequence) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Join notes that a connection has a part in the sequence.
func (s *Sequence) Join(member any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.join(member)
}

func (s *Sequence) join(member any) {
	if s.members == nil {
		s.members = map[any]struct{}{}
	}
	s.members[member] = struct{}{}
}

// Shared reports whether the sequence's owner may have several connections.
func (s *Sequence) Shared() bool { return !s.apart && s.owner.Load().shared }

// Alone reports whether no other connection than member has a part in the sequence.
func (s *Sequence) Alone(member any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.members {
		if other != member {
			return false
		}
	}
	return true
}

// leave ends a connection's part and reports whether it was the last with one.
func (s *Sequence) leave(member any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.members[member]; !ok {
		return false
	}
	delete(s.members, member)
	return len(s.members) == 0
}

// Unlinger gives back a hold that is only kept after a commit, for others that may wait for it.
func (s *Sequence) Unlinger(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Held || !s.lingering || s.pending {
		return
	}
	s.release(ctx, false)
	if s.state == Held {
		s.story.why = event.Lingered
		s.lapse()
	}
}

// Abandon gives back a hold that a command took in vain. What was read before it stays as it is:
// to be written, or stale.
func (s *Sequence) Abandon(ctx context.Context) { s.abandon(ctx, event.InVain) }

// PutDown is Abandon for a hold that stands in the way.
func (s *Sequence) PutDown(ctx context.Context) { s.abandon(ctx, event.Yielded) }

func (s *Sequence) abandon(ctx context.Context, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart {
		return
	}
	s.release(ctx, false)
	if s.state == Held {
		s.story.why = why
		s.lapse()
	}
}
