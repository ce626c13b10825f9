// Package event says what becomes of guarded sequences, to whoever shows it: metrics, traces, the status page.
//
// The guard tells a [Sink] of each step as it happens. Nothing is told of commands that pass unguarded.
//
//	         ┌─ Quit                         ┌─ Break
//	Wait ────┴─ Grant ── Read … Commit … ────┴─ Release          and Refuse, Renew at any time
//
// Each Wait is followed by one Grant or Quit of its sequence, each Grant by one Release or Break, but for grants that are Apart:
// these end at the store, and whoever is told of that is told. Reads and writes may do without a hold, and come by themselves then.
package event

import (
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Kind is what has happened.
type Kind string

// The kinds, in the order in which a sequence goes through them.
const (
	Wait        Kind = "wait"         // a command got in line behind the holder, Other
	Quit        Kind = "quit"         // it left the line without a grant, after Took, for Reason
	Grant       Kind = "grant"        // a sequence was granted its session, after Took in line (0: it was free); Other was the last one waited for. Reason is RecordLost or ""
	Read        Kind = "read"         // a read was answered, under a grant if Grant is not 0
	Commit      Kind = "commit"       // a write was applied, and its token stored if it has one. Reason is Unguarded or ""
	Refuse      Kind = "refuse"       // a command was refused: Error and Reason say why. Nothing was written, unless Error is FENCEUNKNOWN: then nobody knows
	WouldRefuse Kind = "would_refuse" // in mode observe: a command would have been refused for Reason, and went on
	Break       Kind = "break"        // a hold was lost in the middle, after Took, for Reason; who superseded it is Other, where known
	Renew       Kind = "renew"        // the lease was renewed, or was not for Reason and is tried again
	Release     Kind = "release"      // a hold ended after Took, for Reason
)

// Party is an owner, of this proxy or another. What is not known of it is zero.
type Party struct {
	Proxy  string // the proxy's name
	Client string // the client's address
	Name   string // by CLIENT SETNAME; "" if it has none
	Owner  string // the owner's id
	Grant  uint64 // its grant, 0 without one
	Since  time.Time
}

// Event is one step of one sequence.
type Event struct {
	Kind     Kind
	At       time.Time     // when it was over; not before what was told of the sequence last
	Took     time.Duration // how long it took: the wait of a Grant or Quit, the round trip of a Read or Commit, the hold of a Release or Break
	Sequence uint64        // which sequence of this process: its next hold is another. 0: the step belongs to none
	Rule     string        // "" if a command was refused before any was found
	Mode     string        // of the rule
	Kept     string        // the rule's owner setting
	Session  string
	DB       int
	Slot     string            // of the keys, in a cluster (tokenstore.Slot); else ""
	Owner    Party             // whose sequence it is
	Apart    bool              // it stands under a grant that belongs to no owner (FENCE.ACQUIRE, FENCE.DO)
	Command  string            // the client's command in upper case, never an argument; "" where none is at hand
	Grant    uint64            // the sequence's grant, 0 without one
	Lease    time.Duration     // of a Grant, and of a Renew that came about: how long the hold lasts from now on unless it is renewed; 0 if unknown
	Seq      uint64            // of a Commit: which write under the grant; 0: the store has counted
	Newest   uint64            // the newest grant of the session, 0 if unknown
	Error    string            // of a Refuse: first word of the error reply, LOCKED whatever the rule's locked_error is; "" where the client's own WATCH said so
	Reason   string            // in one word
	Other    Party             // who stands against it
	Trace    trace.SpanContext // of the application, as the client has said it; not valid if it has not
}

// Sink is told of events. It is called from the guard's own path with its locks held, by many goroutines at a time: it must not
// block, nor call the guard, and what it keeps it copies.
type Sink interface {
	Event(e *Event)
}
