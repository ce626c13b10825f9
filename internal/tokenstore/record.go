package tokenstore

import (
	"fmt"
	"strings"

	"github.com/tidwall/redcon"
)

// Prefix is the reserved key prefix: fence records live under it and clients may not.
const Prefix = "fence-proxy:"

// WakeChannel returns the Pub/Sub channel on which a proxy hears of sessions handed to its
// waiters. The message is "waiter grant".
func WakeChannel(proxyID string) string { return Prefix + "wake:" + proxyID }

// Record names one session's fence record in one database. It is immutable.
type Record struct {
	// DB is the database the session's keys live in; the record lives beside them.
	DB int
	// Rule and Session name the session for people.
	Rule, Session string

	token, hold, queue string
	keys               []byte // the three keys as RESP bulk strings, as every script takes them
	get, watch         []byte // GET token and WATCH token, ready to send
}

// NewRecord returns the record of a rule's session.
func NewRecord(db int, rule, session string) *Record {
	base := Prefix + "{" + rule + ":" + session + "}:"
	r := &Record{DB: db, Rule: rule, Session: session, token: base + "t", hold: base + "h", queue: base + "q"}
	r.keys = redcon.AppendBulkString(nil, "3")
	for _, key := range [...]string{r.token, r.hold, r.queue} {
		r.keys = redcon.AppendBulkString(r.keys, key)
	}
	r.get = appendStrings(nil, "GET", r.token)
	r.watch = appendStrings(nil, "WATCH", r.token)
	return r
}

// wakeList returns the key of the list that ends a waiter's wait at the store.
func (r *Record) wakeList(waiter string) string {
	return strings.TrimSuffix(r.queue, "q") + "w:" + waiter
}

// Keys returns the record's keys: token, hold, queue.
func (r *Record) Keys() []string { return []string{r.token, r.hold, r.queue} }

// Is reports whether both are one session's.
func (r *Record) Is(other *Record) bool { return r.token == other.token && r.DB == other.DB }

// String names the session in logs and messages.
func (r *Record) String() string {
	if r.DB == 0 {
		return fmt.Sprintf("rule %q session %q", r.Rule, r.Session)
	}
	return fmt.Sprintf("rule %q session %q (db %d)", r.Rule, r.Session, r.DB)
}

func appendStrings(dst []byte, args ...string) []byte {
	dst = redcon.AppendArray(dst, len(args))
	for _, a := range args {
		dst = redcon.AppendBulkString(dst, a)
	}
	return dst
}
