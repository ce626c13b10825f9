// Package event says what becomes of guarded sequences, to whoever shows it: metrics, traces, the status page.
//
// The guard tells a [Sink] of each step as it happens. Nothing is told of commands that pass unguarded.
package event

import "time"

// Kind is what has happened.
type Kind string

// The kinds, in the order in which a sequence goes through them.
const (
	Wait    Kind = "wait"    // a command got in line behind the holder, Other
	Grant   Kind = "grant"   // a sequence was granted its session, after Took in line (0: it was free); Other was the last one waited for
	Read    Kind = "read"    // a read was answered, under a hold if Grant is not 0
	Commit  Kind = "commit"  // a write was applied, and its token stored if it had one
	Refuse  Kind = "refuse"  // a command was refused: Error and Reason say why; nothing was written
	Break   Kind = "break"   // a hold was lost in the middle, for Reason; who superseded it is Other, where known
	Renew   Kind = "renew"   // the lease was renewed, or was not for Reason
	Release Kind = "release" // a hold ended after Took, for Reason
)

// Party is an owner, of this proxy or another.
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
	At       time.Time     // when it was over
	Took     time.Duration // how long it took: the wait of a Grant, the round trip of a Read or Commit, the hold of a Release
	Sequence uint64        // which sequence of this process: its next hold is another
	Rule     string
	Mode     string // of the rule
	Kept     string // the rule's owner setting
	Session  string
	DB       int
	Owner    Party  // whose sequence it is
	Command  string // the client's command in upper case, never an argument; "" where none is at hand
	Grant    uint64 // the sequence's grant, 0 without one
	Seq      uint64 // of a Commit: which write under the grant
	Newest   uint64 // the newest grant of the session, 0 if unknown
	Error    string // first word of the error reply to a Refuse
	Reason   string // in one word
	Other    Party  // who stands against it
}

// Sink is told of events. It is called from the guard's own path, by many goroutines at a time: it must not block,
// and what it keeps it copies.
type Sink interface {
	Event(e *Event)
}
