package lock

import (
	"fmt"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Reason says why a sequence may not write.
type Reason string

// The reasons.
const (
	ReasonSuperseded Reason = "superseded" // another owner was granted the session since
	ReasonMissing    Reason = "missing"    // the fence record is gone
	ReasonChanged    Reason = "changed"    // another owner has written the session since it was read without a hold
	ReasonHeld       Reason = "held"       // it was read without a hold, and another owner holds the session, who will write
	ReasonStored     Reason = "stored"     // this token was stored already
	ReasonMaxHold    Reason = "max_hold"   // the hold reached max_hold
	ReasonUsedUp     Reason = "used_up"    // an earlier write of the same owner used up the read
	ReasonUnsure     Reason = "unsure"     // it may go back to a read that an earlier write of the same owner used up
	ReasonUnnamed    Reason = "unnamed"    // the same owner has read it by a command that did not name it, so that no fence covers that
	ReasonUnheard    Reason = "unheard"    // it was sent before the client could hear of an earlier refusal
	ReasonUpstream   Reason = "upstream"   // the connection over which it was read broke
	ReasonRevised    Reason = "revised"    // the rules were changed since, and the key is in another session now
	ReasonLost       Reason = "lost"       // the lock provider has ended the hold
	ReasonUnfit      Reason = "unfit"      // the agent beside the proxy is not healthy
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

// DownError says that the lock provider can't be asked. Nothing was granted.
type DownError struct {
	Provider string
	Err      error
}

func (e *DownError) Error() string {
	return "lock provider " + e.Provider + " can't be asked: " + e.Err.Error()
}
func (e *DownError) Unwrap() error { return e.Err }

// BehindError says that the lock provider's grants are below those that the store knows. Nothing was granted.
type BehindError struct {
	Provider      string
	Grant, Newest uint64
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("grant %d of lock provider %s is below the record's newest, %d: it may have been set up anew, or is not the one that "+
		"other proxies use; if it counts anew, run fence-proxy migrate --reset", e.Grant, e.Provider, e.Newest)
}

// UnfitError says that nothing may be acquired since the agent beside the proxy is not healthy.
type UnfitError struct{ Err error }

func (e *UnfitError) Error() string {
	return "the agent beside the proxy is not healthy: " + e.Err.Error()
}
func (e *UnfitError) Unwrap() error { return e.Err }

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

// Why says in one word why.
func (e *LockedError) Why() string {
	switch {
	case e.Deadlock:
		return event.Deadlock
	case e.Overtaken:
		return event.Overtaken
	case e.Waiting > 0:
		return event.Full
	case e.Waited > 0:
		return event.Timeout
	}
	return event.Held
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%v: still held by %s after %v", e.Record, e.Holder.Owner, e.Waited)
}
