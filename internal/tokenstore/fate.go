package tokenstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Fate is what became of a commit whose answer was lost, when nothing of it can still be under way.
type Fate uint8

// The fates.
const (
	Untold  Fate = iota // the record does not tell
	Applied             // its token was stored
	Skipped             // it was not applied, and may be presented again: the check says whether it still may
)

// marks is how many there are: fewer than any seq that passed.lua stores.
const marks = 1 << 46

// Mark returns the seq of a write that holds nothing. No other commit is likely to have it, so that the record tells
// whose token is stored though its grant was not known before.
func Mark() uint64 { return 1 + rand.Uint64N(marks) }

// FateOf says what became of a commit by its session's record. floor is its Block's. grant is the one under which it was
// applied.
//
// A record that was lost and made anew since the commit was sent says nothing about it. Its newest grant is then one that was issued
// since, and stored is at most what a look has made (seq 0). Where grants come from elsewhere, one that was given before may be
// registered in it and have written: so a newer one tells nothing.
func (c *Commit) FateOf(t Token, provider string, floor uint64) (fate Fate, grant uint64) {
	switch {
	case c.Passed, t.Grant == 0, t.Provider != provider:
		return Untold, 0
	case c.Grant == 0:
		return c.blindFate(t, floor)
	}
	last := t.StoredGrant == c.Grant
	switch {
	case last && c.Apart: // the store has counted, and others may have written under the grant
		return Untold, 0
	case last && t.StoredSeq == c.Seq:
		return Applied, c.Grant
	case last && t.StoredSeq > c.Seq, t.StoredGrant > c.Grant, t.Grant < c.Grant:
		return Untold, 0
	case t.Grant > c.Grant && (t.StoredSeq == 0 || provider != Own):
		return Untold, 0
	}
	return Skipped, 0
}

// IsStored reports whether a record's last token stored is the commit's for certain: then its write is where the record is.
func (c *Commit) IsStored(t Token, floor uint64) bool {
	switch {
	case c.Apart: // the store has counted
		return false
	case c.Grant == 0:
		return t.StoredGrant > floor && t.StoredSeq == c.Seq
	}
	return t.StoredGrant == c.Grant && t.StoredSeq == c.Seq
}

// blindFate is FateOf for a commit whose grant would have been issued with it: one above floor, and above all before it.
func (c *Commit) blindFate(t Token, floor uint64) (Fate, uint64) {
	switch {
	case t.StoredGrant > floor && t.StoredSeq == c.Seq:
		return Applied, t.StoredGrant
	case t.Grant <= floor, t.StoredGrant <= floor && t.StoredSeq > 0:
		return Skipped, 0
	case c.Read != (Stamp{}) && t.Stamp() == c.Read:
		return Skipped, 0
	}
	return Untold, 0
}

// Aftermath is what the store says of a commit whose answer was lost.
type Aftermath struct {
	Fate   Fate
	Grants []uint64 // of an applied commit's parts; 0: not known
	// Probe is the reply to what was asked along, when nobody had written the session since an applied commit; nil otherwise.
	Probe *redis.Cmd
}

// Question is what is asked about a commit whose answer was lost.
type Question struct {
	Parts []Commit
	Floor uint64 // of its Block
	// Silence, if there is one, is carried out ahead of everything else: nothing of the commit can be under way behind it.
	Silence []any
	// Probe, if there is one, is asked together with the record of a commit of one session.
	Probe []any
}

// Aftermath finds out what became of a commit. Errors: *StoreError if the store has refused to be asked, others if it could
// not be.
func (s *Store) Aftermath(ctx context.Context, q Question) (Aftermath, error) {
	tokens := make([]Token, len(q.Parts))
	unused := make([]bool, len(q.Parts))
	var probe *redis.Cmd
	for i := range q.Parts {
		var get, hold *redis.StringCmd
		r := q.Parts[i].Record
		_, err := s.Client(r.DB).TxPipelined(ctx, func(p redis.Pipeliner) error {
			if i == 0 && len(q.Silence) > 0 {
				p.Do(ctx, q.Silence...)
			}
			get, hold = p.Get(ctx, r.token), p.Get(ctx, r.hold)
			if len(q.Parts) == 1 && len(q.Probe) > 0 {
				probe = p.Do(ctx, q.Probe...)
			}
			return nil
		})
		var refusal redis.Error
		switch {
		case get.Err() == nil, errors.Is(get.Err(), redis.Nil):
		case errors.As(get.Err(), &refusal):
			return Aftermath{}, replyError(refusal.Error())
		default:
			return Aftermath{}, errors.Join(get.Err(), err)
		}
		tokens[i] = parseToken(get.Val())
		unused[i] = hold.Val() == unusedSign+strconv.FormatUint(tokens[i].Grant, 10)
		s.saw(tokens[i].Grant)
	}
	a := s.fateOfAll(q.Parts, tokens, unused, q.Floor)
	if a.Fate == Applied { // and its token is the last one stored
		a.Probe = probe
	}
	return a, nil
}

// unusedSign is how a hold key begins that says that the newest grant is nobody's (given.lua).
const unusedSign = "unused "

// fateOfAll judges a commit of several sessions: it was applied in all of them or in none.
func (s *Store) fateOfAll(parts []Commit, tokens []Token, unused []bool, floor uint64) Aftermath {
	a := Aftermath{Grants: make([]uint64, len(parts))}
	for i := range parts {
		var fate Fate
		fate, a.Grants[i] = parts[i].FateOf(tokens[i], s.of(parts[i].Record).provider, floor)
		if unused[i] && fate == Skipped && parts[i].Grant == tokens[i].Grant {
			fate = Untold // the record is not the one in which the grant was registered
		}
		switch {
		case fate == Untold:
		case a.Fate == Untold:
			a.Fate = fate
		case a.Fate != fate:
			return Aftermath{Grants: make([]uint64, len(parts))} // a record was changed by something else
		}
	}
	return a
}
