// Package history is what agents write down of what they do, for the oracle to judge.
package history

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is what an agent asks for.
type Kind string

// The kinds. Each session has a value, a list and a counter.
const (
	Read   Kind = "read"   // the value
	Update Kind = "update" // the value, from what was read
	Blind  Kind = "blind"  // the value, whatever it was
	Push   Kind = "push"   // an element to the list
	Count  Kind = "count"  // the counter up by one

	Acquire     Kind = "acquire"      // the session by itself
	GrantRead   Kind = "grant-read"   // the value, under a grant
	GrantUpdate Kind = "grant-update" // likewise, from what was read under it
	Release     Kind = "release"      // a grant

	Erase Kind = "erase" // everything, by an operator or a loss of Redis's own
)

// Fate is what an agent has heard.
type Fate string

// The fates.
const (
	Pending Fate = ""        // nothing yet
	Done    Fate = "done"    // it was acknowledged
	Refused Fate = "refused" // it was not carried out
	Unknown Fate = "unknown" // it may have been carried out, or may be so yet
)

// Op is one thing that an agent has asked for.
type Op struct {
	Agent   string `json:"agent"` // and which of its lives
	ID      int    `json:"id"`    // counts an agent's ops
	Kind    Kind   `json:"kind"`
	Session string `json:"session"`

	Value  string `json:"value,omitempty"`  // what it writes or appends: of this op alone
	Was    string `json:"was,omitempty"`    // the value that it goes back to; "": there was none
	Pushes bool   `json:"pushes,omitempty"` // Value is appended to the list in the same transaction
	Grant  uint64 `json:"grant,omitempty"`  // under which it is done, or that was acquired
	TTL    int64  `json:"ttl,omitempty"`    // of Acquire, in nanoseconds

	Call   int64  `json:"call"`             // when it was sent, by [Now]
	Return int64  `json:"return,omitempty"` // when its answer was there, or the lack of one
	Fate   Fate   `json:"fate,omitempty"`
	Got    string `json:"got,omitempty"`    // the value that was read
	Number int64  `json:"number,omitempty"` // that was answered: the list's length, the counter, or whether a grant was released
	Error  string `json:"error,omitempty"`
}

// Name names an op in the history of all agents.
func (o *Op) Name() string { return fmt.Sprintf("%s#%d", o.Agent, o.ID) }

// Writes reports whether the op sets the value.
func (o *Op) Writes() bool { return o.Kind == Update || o.Kind == Blind || o.Kind == GrantUpdate }

// Appends reports whether the op appends to the list.
func (o *Op) Appends() bool { return o.Kind == Push || o.Pushes }

// String is one line for people.
func (o *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-10s %-12s session %s", o.Name(), o.Kind, o.Session)
	if o.Grant > 0 {
		fmt.Fprintf(&b, " grant %d", o.Grant)
	}
	if o.Value != "" {
		fmt.Fprintf(&b, " writes %s", o.Value)
	}
	if o.Kind == Update || o.Kind == GrantUpdate {
		fmt.Fprintf(&b, " from %q", o.Was)
	}
	if o.Pushes {
		b.WriteString(" and pushes it")
	}
	switch {
	case o.Fate == Pending:
		b.WriteString(": no answer")
	case o.Fate == Done && (o.Kind == Read || o.Kind == GrantRead):
		fmt.Fprintf(&b, ": %q", o.Got)
	case o.Fate == Done && o.Number != 0:
		fmt.Fprintf(&b, ": %d", o.Number)
	default:
		fmt.Fprintf(&b, ": %s", o.Fate)
	}
	if o.Error != "" {
		fmt.Fprintf(&b, " (%.100s)", o.Error)
	}
	return b.String()
}

// Now is a time that all processes of a machine agree upon, whoever sets its clock.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Now().UnixNano()
	}
	return t.Nano()
}

// ValueKey is a session's value. In a cluster all that a session has is in one slot.
func ValueKey(session string) string { return "ctx:{" + session + "}:value" }

// ListKey is its list.
func ListKey(session string) string { return "ctx:{" + session + "}:list" }

// CountKey is its counter.
func CountKey(session string) string { return "ctx:{" + session + "}:count" }

// JobsKey is the list over which agents hand grants on. No rule guards it.
const JobsKey = "jobs"

// ForeignSet is the name that a Redis may have been given for SET, with which it does not list it.
const ForeignSet = "writeforeign"
