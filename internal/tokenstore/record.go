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

// Area is where keys live: in a database, or in a slot of a cluster. A session's record lives beside its data; a session
// whose keys are in several slots has a record in each.
type Area struct {
	DB   int
	Slot Slot
	// Spans: the session's keys are, or may be, in several slots of a cluster.
	Spans bool
}

// AreaInCluster is where a key lives in a cluster.
func AreaInCluster(key []byte, spans bool) Area { return Area{Slot: SlotOf(key), Spans: spans} }

// Record names one session's fence record in one area. It is immutable.
type Record struct {
	// Area is where the session's keys live; the record lives beside them.
	Area
	// Rule and Session name the session for people.
	Rule, Session string

	token, hold, queue string
	keys               []byte // the three keys as RESP bulk strings, as every script takes them
	get, watch         []byte // GET token and WATCH token, ready to send
}

// NewRecord returns the record of a rule's session.
func NewRecord(at Area, rule, session string) *Record {
	base := at.base(rule, session)
	r := &Record{Area: at, Rule: rule, Session: session, token: base + "t", hold: base + "h", queue: base + "q"}
	r.keys = redcon.AppendBulkString(nil, "3")
	for _, key := range [...]string{r.token, r.hold, r.queue} {
		r.keys = redcon.AppendBulkString(r.keys, key)
	}
	r.get = appendStrings(nil, "GET", r.token)
	r.watch = appendStrings(nil, "WATCH", r.token)
	return r
}

// base begins the names of a record's keys, which so have one hash tag: in a cluster that of the data's slot. No rule's name
// has a colon, so the two forms can't be taken for each other.
func (a Area) base(rule, session string) string {
	if a.Slot == "" {
		return Prefix + "{" + rule + ":" + session + "}:"
	}
	return Prefix + "{" + string(a.Slot) + "}:" + rule + ":" + session + ":"
}

// recordAt returns the record that a key of a database belongs to, nil if it does not end as a record's of this kind does.
func recordAt(db int, key, kind string) *Record {
	name, ours := strings.CutPrefix(key, Prefix+"{")
	name, fits := strings.CutSuffix(name, ":"+kind)
	if !ours || !fits {
		return nil
	}
	at := Area{DB: db}
	if whole, one := strings.CutSuffix(name, "}"); one && strings.Contains(name[:max(strings.IndexByte(name, '}'), 0)], ":") {
		name = whole
	} else {
		tag, rest, ok := strings.Cut(name, "}:")
		if !ok {
			return nil
		}
		at.Slot, name = Slot(tag), rest
	}
	rule, session, ok := strings.Cut(name, ":")
	if !ok {
		return nil
	}
	return NewRecord(at, rule, session)
}

// Recognize tells of a key of a database whether the fence keeps it, and, if it is one of a record's own three, whose: record is nil
// for any other.
func Recognize(db int, key string) (record *Record, ours bool) {
	name, reserved := strings.CutPrefix(key, Prefix)
	if !reserved {
		return nil, false
	}
	for _, kind := range [...]string{"t", "h", "q"} {
		if r := recordAt(db, key, kind); r != nil {
			return r, true
		}
	}
	if strings.HasPrefix(name, "{") {
		for _, kind := range [...]string{"b", "x"} {
			if recordAt(db, key, kind) != nil {
				return nil, true
			}
		}
		return nil, strings.Contains(name, ":w:") || strings.Contains(name, ":o:")
	}
	kind, _, _ := strings.Cut(name, ":")
	return nil, kind == "waits" || kind == "circle" || kind == "w" || key == saltKey
}

// WakeList returns the key of the list that ends a waiter's wait at the store.
func (r *Record) WakeList(waiter string) string {
	return strings.TrimSuffix(r.queue, "q") + "w:" + waiter
}

// Keys returns the record's keys: token, hold, queue.
func (r *Record) Keys() []string { return []string{r.token, r.hold, r.queue} }

// Is reports whether both are one.
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
