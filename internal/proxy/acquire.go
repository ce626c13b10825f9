package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A client that acquires a session gets its grant. The hold is the grant's and not the connection's:
// it outlives the connection, and nobody renews it but who presents the grant. As long as the grant is the
// newest, what the client does on the session over this connection is done under it.

// waitMost bounds how long a client may ask to wait.
const waitMost = time.Hour

// grants are what a client has acquired, by session.
type grants map[grantKey]*lock.Sequence

type grantKey struct {
	at            tokenstore.Area
	rule, session string
}

// underGrant returns the sequence for what is done on a session under a grant that is presented, or was acquired
// over this connection; nil if there is none.
func (c *client) underGrant(r *rule.Rule, at tokenstore.Area, session []byte) *lock.Sequence {
	if c.doing > 0 {
		return c.srv.locks.Apart(at, r, session, c.identity(), c.doing)
	}
	if len(c.grants) == 0 {
		return nil
	}
	key := grantKey{grantsAt(at, r, session), r.Name, string(session)}
	s := c.grants[key]
	if s != nil && s.State() != lock.Held { // the client has heard of its end
		delete(c.grants, key)
		return nil
	}
	if s != nil && at != key.at {
		return c.srv.locks.Apart(at, r, session, c.identity(), s.Grant())
	}
	return s
}

// extend has a grant that stands elsewhere count in the slot of a sequence, too.
func (c *client) extend(s *lock.Sequence, stands tokenstore.Area) {
	var stale *lock.FencedError
	err := c.srv.locks.Extend(context.Background(), s, stands)
	switch {
	case errors.As(err, &stale):
		if own := c.grants[grantKey{stands, s.Record.Rule, s.Record.Session}]; own != nil && own.Grant() == s.Grant() {
			_ = own.Stale(stale.Newest, stale.Holder) // the client hears of it now
		}
	case err != nil:
		c.srv.log.Warn("a grant could not be extended to another slot: what is done under it there is refused",
			"rule", s.Record.Rule, "session", s.Record.Session, "error", err)
	}
}

// grantsAt is where grants stand that are acquired by themselves: beside the key, or for a session that spans slots in one
// that is always the same.
func grantsAt(at tokenstore.Area, r *rule.Rule, session []byte) tokenstore.Area {
	if !at.Spans {
		return at
	}
	return tokenstore.AreaInCluster(append([]byte(r.Name+":"), session...), true)
}

// acquire is FENCE.ACQUIRE.
func (c *client) acquire(args [][]byte) error {
	sub, err := c.subjectOf(args[1])
	if err != nil {
		return err
	}
	terms := *sub.rule
	err = options(args[2:], map[string]func([]byte) error{
		"TTL":  func(text []byte) (err error) { terms.Lease, err = ttlOf(sub, text); return err },
		"WAIT": func(text []byte) (err error) { terms.Wait, err = period("WAIT", text, 0, waitMost); return err },
	})
	switch {
	case err != nil:
		return err
	case c.silent:
		return &deniedError{reason: "nobody would hear of the grant: turn replies on (CLIENT REPLY ON)"}
	}
	if refusal, _, err := c.mayTouch(sub.key, nil, 0); refusal != nil || err != nil {
		return c.inItsWords(refusal, err)
	}
	if err := c.hearOfHandOvers(); err != nil {
		return &downError{sub.grants.String(), err}
	}
	if err := c.putDown(sub); err != nil {
		return err
	}
	s := c.srv.locks.Apart(sub.grants.Area, &terms, []byte(sub.grants.Session), c.identity(), 0).Outlast(sub.rule.Lease)
	b, err := c.waitFor(s)
	if err != nil {
		return err
	}
	c.noticed(s, b)
	if err := errors.Join(c.local(resp.AppendInt(nil, int64(b.Grant))), c.out.Push()); err != nil {
		c.returns(s, b.Grant) // it reaches nobody
		return err
	}
	if c.grants == nil {
		c.grants = grants{}
	}
	c.grants[grantKey{sub.grants.Area, sub.rule.Name, sub.grants.Session}] = s
	return nil
}

func ttlOf(sub subject, text []byte) (time.Duration, error) {
	return period("TTL", text, time.Millisecond, sub.rule.MaxHold)
}

// waitFor acquires a session, unless the client leaves meanwhile.
func (c *client) waitFor(s *lock.Sequence) (tokenstore.Begin, error) {
	if c.stopping.Load() {
		return tokenstore.Begin{}, c.gone()
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c.inLine = place{s, true}
	c.parts = append(c.parts[:0], part{sequence: s})
	s.Serves("FENCE.ACQUIRE", c.traces.take())
	w := c.watch()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-w.gone:
			cancel(c.gone())
		case <-w.more:
			cancel(&lock.LockedError{Record: s.Record, Word: s.Rule.LockedError, Overtaken: true})
		case <-ctx.Done():
		}
	}()
	b, err := c.srv.locks.Acquire(ctx, s)
	left := context.Cause(ctx)
	cancel(nil)
	<-ended
	w.stop()
	c.inLine = place{}
	var locked *lock.LockedError
	switch {
	case err == nil && left != nil: // just when it was granted
		c.returns(s, b.Grant)
		return b, left
	case err != nil && left == nil && !errors.As(err, &locked):
		return b, &downError{s.Record.String(), err}
	}
	return b, err
}

// returns gives a grant back that nobody has heard of.
func (c *client) returns(s *lock.Sequence, grant uint64) {
	ctx, cancel := asking()
	defer cancel()
	s.Released(event.InVain)
	if _, err := c.srv.locks.ReleaseGrant(ctx, s.Record, s.Claim, grant); err != nil {
		c.srv.log.Warn("session not given back yet", "rule", s.Record.Rule, "session", s.Record.Session, "error", err)
		c.srv.locks.Owes(s)
	}
}

// putDown gives back what the client's own reads hold of a session, so that it does not wait for itself.
func (c *client) putDown(sub subject) error {
	for _, s := range c.ownerOf(sub.rule).All(sub.record.Area, sub.rule, []byte(sub.record.Session)) {
		if err := c.putDownOne(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) putDownOne(s *lock.Sequence) error {
	if s.State() != lock.Held || !s.Alone(c) {
		return nil
	}
	in, err := c.enter(s, s.Rule.Wait, nil, nil)
	if !in || err != nil {
		return err
	}
	defer s.Leave()
	s.PutDown(context.Background())
	return nil
}

// hearOfHandOvers makes sure that the session can be handed to the client.
func (c *client) hearOfHandOvers() error {
	if c.srv.hear == nil {
		return nil
	}
	ctx, cancel := asking()
	defer cancel()
	return c.srv.hear(ctx)
}

// inItsWords answers a command as Redis has answered the question whether the client may, or with what kept it from
// being asked.
func (c *client) inItsWords(refusal []byte, err error) error {
	if err != nil {
		return err
	}
	return c.local(refusal)
}

// renew is FENCE.RENEW.
func (c *client) renew(args [][]byte) error {
	sub, grant, err := c.presented(args)
	if err != nil {
		return err
	}
	lease := sub.rule.Lease
	err = options(args[3:], map[string]func([]byte) error{
		"TTL": func(text []byte) (err error) { lease, err = ttlOf(sub, text); return err },
	})
	if err != nil {
		return err
	}
	if refusal, _, err := c.mayTouch(sub.key, nil, 0); refusal != nil || err != nil {
		return c.inItsWords(refusal, err)
	}
	ctx, cancel := asking()
	defer cancel()
	c.underOwn(sub, grant)
	switch holder, err := c.srv.locks.RenewGrant(ctx, sub.grants, c.claim(sub, lease), grant); {
	case errors.Is(err, tokenstore.ErrLost):
		return &lock.FencedError{Record: sub.grants, Reason: lock.ReasonNotNewest, Grant: grant, Newest: holder.Grant, Holder: holder}
	case err != nil:
		c.tell(sub.grants, event.Event{Kind: event.Renew, Apart: true, Grant: grant, Reason: event.Unasked})
		return &downError{sub.grants.String(), err}
	}
	c.tell(sub.grants, event.Event{Kind: event.Renew, Apart: true, Grant: grant, Newest: grant, Lease: lease})
	return c.local(resp.AppendInt(nil, lease.Milliseconds()))
}

// releaseGrant is FENCE.RELEASE.
func (c *client) releaseGrant(args [][]byte) error {
	sub, grant, err := c.presented(args)
	if err != nil {
		return err
	}
	if refusal, _, err := c.mayTouch(sub.key, nil, 0); refusal != nil || err != nil {
		return c.inItsWords(refusal, err)
	}
	ctx, cancel := asking()
	defer cancel()
	ended, err := c.srv.locks.ReleaseGrant(ctx, sub.grants, c.claim(sub, sub.rule.Lease), grant)
	if err != nil {
		return &downError{sub.grants.String(), err}
	}
	key := grantKey{sub.grants.Area, sub.rule.Name, sub.grants.Session}
	if s := c.grants[key]; s != nil && s.Grant() == grant {
		delete(c.grants, key)
		s.Released(event.Released)
	} else if ended {
		c.tell(sub.grants, event.Event{Kind: event.Release, Apart: true, Grant: grant, Reason: event.Released})
	}
	return c.local(resp.AppendInt(nil, number(ended)))
}

// underOwn makes a session's grant the one at hand if it was acquired over this connection.
func (c *client) underOwn(sub subject, grant uint64) {
	if s := c.grants[grantKey{sub.grants.Area, sub.rule.Name, sub.grants.Session}]; s != nil && s.Grant() == grant {
		c.parts = append(c.parts[:0], part{sequence: s})
	}
}

// presented reads a key and a grant.
func (c *client) presented(args [][]byte) (subject, uint64, error) {
	sub, err := c.subjectOf(args[1])
	if err != nil {
		return sub, 0, err
	}
	grant, err := grantOf(args[2])
	return sub, grant, err
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
