package tokenstore

import (
	"slices"
	"strconv"

	"github.com/tidwall/redcon"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Commit is one session's part in a commit.
type Commit struct {
	Record *Record
	Claim  *Claim
	// Grant is the hold's grant, or 0 for a write that holds nothing: it is granted as it is applied. Where a lock
	// provider elsewhere grants there is none, and such a write is refused (Ungranted).
	Grant uint64
	// Read is the token that was the last one stored when the session was read without a hold; the write
	// is refused if it no longer is. The zero Stamp: a blind write. It counts where Grant is 0.
	Read Stamp
	// Seq counts the writes under Grant, from 1. A write that holds nothing has a Mark, from which those behind it count on.
	Seq uint64
	// Apart: the grant was acquired by itself. The store counts Seq, which is 0 here, and the hold stays as it is.
	Apart bool
	// Keep holds on to the session after the commit; else it is released and handed on.
	Keep bool
	// Passed: the write is not checked, since the lock provider can't be asked. It makes stale what others have read.
	Passed bool
}

// Verdict is what the check says of a commit.
type Verdict string

// The verdicts. Only Good lets the write through.
const (
	Good       Verdict = "good"
	Missing    Verdict = "missing"    // the record is gone: flushed, evicted, expired or deleted
	Superseded Verdict = "superseded" // a newer grant was issued
	Stored     Verdict = "stored"     // this token, or a later one of this grant, is stored already
	Changed    Verdict = "changed"    // another token was stored since the session was read without a hold
	Held       Verdict = "held"       // a write that holds nothing found a holder
	Queued     Verdict = "queued"     // … found waiters
	Foreign    Verdict = "provider"   // the record is another provider's
	Ungranted  Verdict = "ungranted"  // it has no grant, where a lock provider elsewhere has to give one
)

// Check is the answer of the check.
type Check struct {
	Verdict Verdict
	Token   Token  // the record when the verdict is not Good
	Holder  Holder // likewise
}

// Block says where the replies to a commit's block are.
type Block struct {
	Frames int // how many there are
	Checks int // the number of checks: one a session, or none
	// Command is the index of the reply to queueing the client's command, the first of Commands.
	Command  int
	Commands int
	// Exec is the index of the EXEC's reply: an array of the client's replies and a settlement a
	// session, nil when a check refused, or an error when a command could not be queued.
	Exec int
	// Tail is how many elements of the EXEC's array come behind the client's.
	Tail int
	// Floor is what the grant of a write that holds nothing is above.
	Floor uint64

	// spread: sessions are in several databases, so the connection selects each one's for what is about it.
	spread bool
}

// Watch is the index of the reply to a WATCH that session i's check needs.
func (b Block) Watch(i int) int {
	if b.spread {
		return 3*i + 1
	}
	return 0
}

// Check is the index of session i's check.
func (b Block) Check(i int) int {
	if b.spread {
		return 3*i + 2
	}
	return 1 + i
}

// Settle is the index of session i's settlement, counting the elements of the EXEC's array from
// the EXEC's own index on.
func (b Block) Settle(i int) int {
	if b.spread {
		i = 2*i + 1
	}
	return b.Exec + b.Commands + i
}

// AppendCommit appends the block that applies so many commands of a client (RESP bytes) under their tokens. db is the
// connection's database.
// With watched, the records' tokens are under WATCH on the connection since they were last known
// to be good (AppendWatch, AppendVerify): the block needs no check then. before, if there is any, is one request to be
// sent right before the transaction.
func (s *Store) AppendCommit(dst []byte, db int, parts []Commit, before, commands []byte, count int, watched bool) ([]byte, Block) {
	b := Block{Commands: count, Tail: len(parts), Floor: s.floor.Load()}
	for i := range parts {
		b.spread = b.spread || parts[i].Record.DB != db
	}
	switch {
	case watched, allPassed(parts):
	case b.spread:
		for i := range parts {
			dst = appendSelect(dst, parts[i].Record.DB)
			if parts[i].Passed {
				dst = append(dst, unchecked...) // in the place of a WATCH
			} else {
				dst = appendWatch(dst, parts[i:i+1])
			}
			dst = s.appendCheck(dst, &parts[i])
		}
		dst = appendSelect(dst, db)
		b.Checks, b.Frames = len(parts), 3*len(parts)+1
	default:
		dst = appendWatch(dst, parts)
		for i := range parts {
			dst = s.appendCheck(dst, &parts[i])
		}
		b.Checks, b.Frames = len(parts), 1+len(parts)
	}
	if len(before) > 0 {
		dst = append(dst, before...)
		b.Frames++
	}
	dst = append(dst, "*1\r\n$5\r\nMULTI\r\n"...)
	dst = append(dst, commands...)
	for i := range parts {
		if b.spread {
			dst = appendSelect(dst, parts[i].Record.DB)
		}
		dst = s.appendSettle(dst, &parts[i], b.Floor)
	}
	if b.spread {
		dst = appendSelect(dst, db)
		b.Tail = 2*len(parts) + 1
	}
	b.Command = b.Frames + 1
	b.Exec = b.Command + count + b.Tail
	b.Frames = b.Exec + 1
	return append(dst, "*1\r\n$4\r\nEXEC\r\n"...), b
}

func appendSelect(dst []byte, db int) []byte { return appendStrings(dst, "SELECT", strconv.Itoa(db)) }

// AppendOwnWrite appends a write of a key that is gone after a millisecond. A WAIT behind it is for all that was written before at the
// node which it leads to: since Redis 7.2 WAIT is for what its own connection has written, and does not wait when that is nothing.
func AppendOwnWrite(dst []byte, at Area) []byte {
	return append(dst, appendStrings(nil, "EVAL", "return redis.call('set', KEYS[1], '', 'px', 1)", "1", at.base("", "")+"w:own")...)
}

// AppendWatch appends a WATCH of one record's token key.
func (s *Store) AppendWatch(dst []byte, r *Record) []byte { return append(dst, r.watch...) }

func allPassed(parts []Commit) bool {
	return !slices.ContainsFunc(parts, func(c Commit) bool { return !c.Passed })
}

// appendWatch watches what the checks touch when they are not good.
func appendWatch(dst []byte, parts []Commit) []byte {
	if len(parts) == 1 && parts[0].Grant > 0 {
		return append(dst, parts[0].Record.watch...)
	}
	n := 1
	for i := range parts {
		switch {
		case parts[i].Passed:
		case parts[i].Grant == 0:
			n += 2
		default:
			n++
		}
	}
	dst = redcon.AppendArray(dst, n)
	dst = redcon.AppendBulkString(dst, "WATCH")
	for i := range parts {
		if parts[i].Passed {
			continue
		}
		dst = redcon.AppendBulkString(dst, parts[i].Record.token)
		if parts[i].Grant == 0 {
			dst = redcon.AppendBulkString(dst, parts[i].Record.queue)
		}
	}
	return dst
}

// appendCheck sends the check's text, never its digest: see check.lua.
func (s *Store) appendCheck(dst []byte, c *Commit) []byte {
	if c.Passed {
		return append(dst, unchecked...)
	}
	d := s.of(c.Record)
	dst = redcon.AppendArray(dst, 3+3+6)
	dst = append(dst, d.check.eval...)
	dst = append(dst, c.Record.keys...)
	dst = appendUint(dst, c.Grant)
	dst = appendUint(dst, c.Seq)
	dst = redcon.AppendBulkString(dst, c.Claim.Owner)
	dst = redcon.AppendBulkString(dst, d.provider)
	dst = redcon.AppendBulkString(dst, c.Claim.ttl)
	if c.Read == (Stamp{}) {
		return redcon.AppendBulkString(dst, "")
	}
	return redcon.AppendBulkString(dst, c.Read.encode())
}

// appendSettle sends a blind write's settlement as text too: without it the write would have no
// grant, and one under a grant that was acquired by itself, whose hold may be over, no token. A holder's may go by digest, since its hold stands until it is settled again.
func (s *Store) appendSettle(dst []byte, c *Commit, floor uint64) []byte {
	d := s.of(c.Record)
	if c.Passed {
		dst = redcon.AppendArray(dst, 3+3+1)
		dst = append(dst, d.passed.eval...)
		dst = append(dst, c.Record.keys...)
		return redcon.AppendBulkString(dst, c.Claim.ttl)
	}
	dst = redcon.AppendArray(dst, 3+3+10)
	if c.Grant == 0 || c.Apart {
		dst = append(dst, d.settle.eval...)
	} else {
		dst = append(dst, d.settle.evalsha...)
	}
	dst = append(dst, c.Record.keys...)
	dst = redcon.AppendBulkString(dst, c.Claim.Owner)
	dst = redcon.AppendBulkString(dst, c.Claim.info)
	dst = redcon.AppendBulkString(dst, c.Claim.lease)
	dst = redcon.AppendBulkString(dst, c.Claim.ttl)
	dst = appendUint(dst, floor)
	dst = redcon.AppendBulkString(dst, d.provider)
	dst = redcon.AppendBulkString(dst, reserve)
	dst = appendUint(dst, c.Grant)
	dst = appendUint(dst, c.Seq)
	return redcon.AppendBulkString(dst, c.keep())
}

// keep says what becomes of the hold: it ends (0), goes on (1), or stays as it is (2).
func (c *Commit) keep() string {
	if c.Apart {
		return "2"
	}
	return flag(c.Keep)
}

// ParseCheck reads the reply to one check. Errors: *ProviderError, *StoreError.
func (s *Store) ParseCheck(frame []byte) (Check, error) {
	if string(frame) == "$4\r\ngood\r\n" {
		return Check{Verdict: Good}, nil
	}
	v, _, err := resp.ParseValue(frame)
	if err != nil {
		return Check{}, err
	}
	if v.IsError() {
		return Check{}, replyError(string(v.Str))
	}
	part := stringsOf(v)
	if len(part) != 3 {
		return Check{}, &StoreError{Reply: "the check answered " + strconv.Quote(string(frame))}
	}
	c := Check{Verdict: Verdict(part[0]), Token: parseToken(part[1]), Holder: parseHolder(part[2])}
	s.saw(c.Token.Grant)
	if c.Verdict == Foreign {
		return c, s.foreign(c.Token.Provider)
	}
	if c.Holder.Grant != c.Token.Grant {
		c.Holder = Holder{}
	}
	return c, nil
}

// ParseSettle reads the reply to one settlement: the grant stored. Errors: ErrNoScript, *StoreError.
func (s *Store) ParseSettle(frame []byte) (uint64, error) {
	v, _, err := resp.ParseValue(frame)
	if err != nil {
		return 0, err
	}
	if v.IsError() {
		return 0, replyError(string(v.Str))
	}
	grant, err := strconv.ParseUint(string(v.Str), 10, 64)
	if err != nil {
		return 0, &StoreError{Reply: "the settlement answered " + strconv.Quote(string(frame))}
	}
	s.saw(grant)
	return grant, nil
}
