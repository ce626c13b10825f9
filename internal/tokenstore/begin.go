package tokenstore

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/tidwall/redcon"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Begin is the answer to a begin: granted, or held by somebody else.
type Begin struct {
	Granted bool
	// Grant is the hold's grant; Seq the last seq stored under it (0 for a new one).
	Grant, Seq uint64
	// Lease is how long the grant stands unless renewed; 0: for the claim's lease.
	Lease time.Duration
	// Continuous: what was read on the expected basis is still current.
	Continuous bool
	// RecordLost: a hold was found whose token key is gone. The new grant is above it all the same.
	RecordLost bool
	// Missing: there was no record before a grant that was given elsewhere.
	Missing bool

	// Behind: a grant that was given elsewhere is not above Newest, the record's. The provider's own number for that is
	// Above, 0 if it has none.
	Behind        bool
	Newest, Above uint64

	// Holder, LeaseLeft and Ahead are set when not granted: who holds, for how long at least, and
	// how many waiters stand before this one; -1: a parked one that is no longer in line.
	Holder    Holder
	LeaseLeft time.Duration
	Ahead     int
	// Full: as many wait as may, and the caller was not queued. Without LeaseLeft.
	Full bool
}

// AppendBegin appends the begin script's call: it answers with one reply. A non-empty waiter
// queues the caller when somebody else holds the session. expected is what earlier reads that shall
// go on stand on.
func (s *Store) AppendBegin(dst []byte, r *Record, c *Claim, waiter string, expected Basis) []byte {
	return s.appendBegin(dst, r, c, waiter, expected, "")
}

// AppendPark appends a wait at the store until the session is handed to a waiter that is in line,
// or left is over, and a begin: it answers with two replies. The connection waits as well, and
// what is sent behind them runs without a further round trip. What is granted so has a lease of
// [Reservation] until it is renewed.
func (s *Store) AppendPark(dst []byte, r *Record, c *Claim, waiter string, expected Basis, left time.Duration) []byte {
	dst = redcon.AppendArray(dst, 3)
	dst = redcon.AppendBulkString(dst, "BLPOP")
	dst = redcon.AppendBulkString(dst, r.WakeList(waiter))
	dst = redcon.AppendBulkString(dst, inSeconds(left))
	return s.appendBegin(dst, r, c, waiter, expected, "parked")
}

func (s *Store) appendBegin(dst []byte, r *Record, c *Claim, waiter string, expected Basis, where string) []byte {
	d := s.of(r)
	dst = redcon.AppendArray(dst, 3+3+11)
	dst = append(dst, d.begin.evalsha...)
	dst = append(dst, r.keys...)
	dst = redcon.AppendBulkString(dst, c.Owner)
	dst = redcon.AppendBulkString(dst, c.info)
	dst = redcon.AppendBulkString(dst, c.lease)
	dst = redcon.AppendBulkString(dst, c.ttl)
	dst = appendUint(dst, s.floor.Load())
	dst = redcon.AppendBulkString(dst, d.provider)
	dst = redcon.AppendBulkString(dst, reserve)
	dst = redcon.AppendBulkString(dst, waiter)
	dst = redcon.AppendBulkString(dst, expected.encode())
	dst = redcon.AppendBulkString(dst, where)
	return appendUint(dst, s.waiters.Load())
}

// ParseBegin reads the reply to AppendBegin. Errors: ErrNoScript, *ProviderError, *StoreError.
func (s *Store) ParseBegin(frame []byte) (Begin, error) {
	if b, ok := parseGranted(frame); ok {
		s.saw(b.Grant)
		return b, nil
	}
	v, _, err := resp.ParseValue(frame)
	if err != nil {
		return Begin{}, err
	}
	if v.IsError() {
		return Begin{}, replyError(string(v.Str))
	}
	return s.parseBegin(stringsOf(v))
}

// parseGranted reads the usual answer, a new grant of 16 digits, for a tenth of the time. It reports false
// for any other.
func parseGranted(frame []byte) (b Begin, ok bool) {
	const start, digits = "*4\r\n$7\r\ngranted\r\n$16\r\n", 16
	rest, ok := bytes.CutPrefix(frame, []byte(start))
	if !ok || len(rest) < digits {
		return Begin{}, false
	}
	switch string(rest[digits:]) {
	case "\r\n$1\r\n0\r\n$1\r\n0\r\n":
	case "\r\n$1\r\n0\r\n$1\r\n1\r\n":
		b.Continuous = true
	default:
		return Begin{}, false
	}
	grant, err := strconv.ParseUint(string(rest[:digits]), 10, 64)
	b.Granted, b.Grant = true, grant
	return b, err == nil
}

func (s *Store) parseBegin(part []string) (Begin, error) {
	switch {
	case len(part) == 2 && part[0] == "provider":
		return Begin{}, s.foreign(part[1])
	case len(part) == 4 && part[0] == "granted":
		b := Begin{Granted: true, Continuous: part[3] == "1", RecordLost: part[3] == "lost"}
		b.Missing = b.RecordLost || part[3] == "missing"
		var err1, err2 error
		b.Grant, err1 = strconv.ParseUint(part[1], 10, 64)
		b.Seq, err2 = strconv.ParseUint(part[2], 10, 64)
		if err1 == nil && err2 == nil {
			s.saw(b.Grant)
			return b, nil
		}
	case len(part) == 3 && part[0] == "behind":
		if b, ok := parseBehind(part); ok {
			return b, nil
		}
	case len(part) == 3 && part[0] == "full":
		if waiting, err := strconv.Atoi(part[2]); err == nil {
			h := parseHolder(part[1])
			s.saw(h.Grant)
			return Begin{Holder: h, Ahead: waiting, Full: true}, nil
		}
	case len(part) == 4 && part[0] == "held":
		left, err1 := strconv.ParseInt(part[2], 10, 64)
		ahead, err2 := strconv.Atoi(part[3])
		if err1 == nil && err2 == nil {
			h := parseHolder(part[1])
			s.saw(h.Grant)
			return Begin{Holder: h, LeaseLeft: time.Duration(left) * time.Millisecond, Ahead: ahead}, nil
		}
	}
	return Begin{}, fmt.Errorf("the begin script answered %q", part)
}

// AppendVerify appends a plain read of the token key, for an owner that holds the session already.
func (s *Store) AppendVerify(dst []byte, r *Record) []byte { return append(dst, r.get...) }

// ParseVerify reads the reply to AppendVerify; a missing record gives a zero Token.
func (s *Store) ParseVerify(frame []byte) (Token, error) {
	v, _, err := resp.ParseValue(frame)
	if err != nil {
		return Token{}, err
	}
	if v.IsError() {
		return Token{}, replyError(string(v.Str))
	}
	t := parseToken(string(v.Str))
	s.saw(t.Grant)
	return t, nil
}

// stringsOf flattens an array of strings and integers.
func stringsOf(v resp.Value) []string {
	if len(v.Elems) == 0 {
		return []string{string(v.Str)}
	}
	part := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		part[i] = string(e.Str)
	}
	return part
}
