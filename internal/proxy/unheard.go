package proxy

import (
	"errors"
	"slices"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A client that pipelines may have sent more before it could hear that a command of its was refused as stale. A write
// to the same session among that goes back to the same reads, though nothing tells any more: the refusal has ended the
// sequence. So it is refused as well. What had come by then is what counts as sent before.

// maxUnheard bounds the sessions of which refusals are remembered. With more of them, any session counts.
const maxUnheard = 64

// unheard are the sessions of refusals that the client had not heard of when it sent what it sends now.
type unheard struct {
	until    int64 // of its input, in bytes
	sessions []*tokenstore.Record
}

// refused notes a refusal, if it is one that others depend on.
func (u *unheard) refused(c *client, err error) {
	var fenced *lock.FencedError
	var unknown *unknownError
	switch {
	case errors.As(err, &unknown):
		u.add(c, unknown.records)
		return
	case !errors.As(err, &fenced):
		return
	}
	switch fenced.Reason {
	case lock.ReasonUnheard, lock.ReasonNotNewest:
		return
	case lock.ReasonUsedUp, lock.ReasonUnsure: // of one task of several, and what the others have read is still known
		return
	}
	u.add(c, []*tokenstore.Record{fenced.Record})
}

func (u *unheard) add(c *client, sessions []*tokenstore.Record) {
	if !u.counts(c) {
		u.sessions = u.sessions[:0]
	}
	u.until = c.in.taken + int64(len(c.in.bytes())+c.nc.Unread())
	if len(u.sessions) <= maxUnheard {
		u.sessions = append(u.sessions, sessions...)
	}
}

// counts reports whether the present command was sent before.
func (u *unheard) counts(c *client) bool { return len(u.sessions) > 0 && c.in.taken <= u.until }

// of returns the refusal of a write to a session, nil if there is no reason for one.
func (u *unheard) of(c *client, s *lock.Sequence) error {
	if !u.counts(c) || s.IsApart() {
		return nil
	}
	if len(u.sessions) <= maxUnheard && !slices.ContainsFunc(u.sessions, s.Record.Is) {
		return nil
	}
	return &lock.FencedError{Record: s.Record, Reason: lock.ReasonUnheard}
}
