package lock

import (
	"fmt"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Reason says why a sequence may not write.
type Reason string

// The reasons.
const (
	ReasonSuperseded Reason = "superseded" // another owner was granted the session since
	ReasonMissing    Reason = "missing"    // the fence record is gone
	ReasonChanged    Reason = "changed"    // another owner has written the session since it was read without a hold
	ReasonStored     Reason = "stored"     // this token was stored already
	ReasonMaxHold    Reason = "max_hold"   // the hold reached max_hold
	ReasonUsedUp     Reason = "used_up"    // an earlier write of the same owner used up the read
	ReasonUnsure     Reason = "unsure"     // it may go back to a read that an earlier write of the same owner used up
	ReasonUpstream   Reason = "upstream"   // the connection over which it was read broke
	ReasonRevised    Reason = "revised"    // the rules were changed since, and the key is in another session now
	ReasonNotNewest  Reason = "not_newest" // a grant that was presented in so many words is not the newest
)

// FencedError refuses a command of a sequence whose reads are stale. Nothing was written.
type FencedError struct {
	Record *tokenstore.Record
	Reason Reason
	Grant  uint64            // the grant presented
	Newest uint64            // the newest grant, 0 when not known
	Holder tokenstore.Holder // who holds the session now, if anybody and if known
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("%v: grant %d is stale (%s)", e.Record, e.Grant, e.Reason)
}

// LockedError refuses a command after waiting for another owner. Nothing was written.
type LockedError struct {
	Record *tokenstore.Record
	Holder tokenstore.Holder
	Waited time.Duration
	Word   string // first word of the reply, by the rule's locked_error
	// Deadlock: the holder waits for a session that the command's owner held.
	Deadlock bool
	// Overtaken: it gave up waiting since a write of the same connection, to a session that its owner holds, came behind it.
	Overtaken bool
	// Waiting is how many wait already if that is why there was no waiting, else 0.
	Waiting int
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%v: still held by %s after %v", e.Record, e.Holder.Owner, e.Waited)
}
