package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/size"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// errUnproved says that Redis did not let the client's user do what a fence stands on.
var errUnproved = errors.New("the client's user may not WATCH, MULTI or EXEC, which the fence needs")

// deniedError refuses a command that cannot be guarded, or a reserved key.
type deniedError struct {
	reason  string
	unknown bool // since the upstream's table does not have the command
}

func (e *deniedError) Error() string { return e.reason }

// wordError is an error in the words in which Redis would say it.
type wordError string

func (e wordError) Error() string { return string(e) }

// unknownError says that a write's outcome is not known.
type unknownError struct {
	sessions string
	err      error
	records  []*tokenstore.Record // of the sessions, where what the client has sent behind the write depends on it
	applied  bool                 // … but for Redis's reply: it was carried out
}

func (e *unknownError) Error() string { return e.sessions + ": " + e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// downError says that the fence could not be asked. Nothing was written.
type downError struct {
	sessions string
	err      error
}

func (e *downError) Error() string { return e.sessions + ": " + e.err.Error() }
func (e *downError) Unwrap() error { return e.err }

// requestError is a request that is larger than the proxy takes.
type requestError struct {
	err   *resp.ProtocolError
	limit size.Size
	proxy string
}

func (e *requestError) Error() string { return e.err.Error() }
func (e *requestError) Unwrap() error { return e.err }

// errorLine is the RESP error line of an error. Its first word is fixed, the rest is for people:
// what happened, to which rule and session, and what to do.
func errorLine(err error, now time.Time) []byte {
	return resp.AppendError(nil, errorText(err, now))
}

func errorText(err error, now time.Time) string {
	var (
		fenced   *lock.FencedError
		locked   *lock.LockedError
		denied   *deniedError
		unknown  *unknownError
		down     *downError
		request  *requestError
		protocol *resp.ProtocolError
		word     wordError
	)
	switch {
	case errors.As(err, &fenced):
		return "FENCED " + fencedText(fenced, now)
	case errors.As(err, &locked):
		return lockedText(locked, now)
	case errors.As(err, &denied):
		return "FENCEDENIED " + denied.reason
	case errors.As(err, &unknown) && unknown.applied:
		return fmt.Sprintf("FENCEUNKNOWN %s: the write was carried out, once, but %v. Don't send it again; read again before you go on.",
			unknown.sessions, unknown.err)
	case errors.As(err, &unknown):
		return fmt.Sprintf("FENCEUNKNOWN %s: the write may or may not have been applied: %v. Read again before you write.",
			unknown.sessions, unknown.err)
	case errors.As(err, &down):
		return fmt.Sprintf("FENCEDOWN %s: nothing was written: %v. Try again later.", down.sessions, down.err)
	case errors.As(err, &word):
		return string(word)
	case errors.Is(err, errStreamGone):
		return "UNBLOCKED " + err.Error() // Redis's own words
	case errors.As(err, &request):
		return fmt.Sprintf("ERR %v (limits.request of fence-proxy %s is %v; an argument counts for %d bytes more than it has)",
			request.err, request.proxy, request.limit, resp.ArgCost)
	case errors.As(err, &protocol):
		return "ERR " + protocol.Error()
	}
	return "ERR fence-proxy: " + err.Error()
}

func fencedText(e *lock.FencedError, now time.Time) string {
	why, then := "", "Read again, then write."
	switch e.Reason {
	case lock.ReasonSuperseded:
		why = "the session was granted to another owner since it was read"
	case lock.ReasonChanged:
		why = "another owner has written the session since it was read"
	case lock.ReasonMissing:
		why = "the session's fence record is gone (deleted, evicted, flushed or expired)"
	case lock.ReasonHeld:
		why = "another owner holds the session, and other tasks' commands would wait with this one until he has written"
	case lock.ReasonStored:
		why = "a write with this token was stored already"
	case lock.ReasonMaxHold:
		why = "the hold reached max_hold and was ended"
	case lock.ReasonUsedUp:
		why = "an earlier write of the same owner used up the read"
	case lock.ReasonUnsure:
		why = "another task of the same owner read the key before its last write, and this write can't be told from that task's"
	case lock.ReasonUnnamed:
		why, then = "a SORT of the same owner may have read the key by a pattern, where no fence covers it", "Read the key by itself, then write."
	case lock.ReasonUnheard:
		why = "a command before this one was refused, and this one was sent before that could be heard"
	case lock.ReasonUpstream:
		why = "the connection to the upstream Redis broke since the session was read"
	case lock.ReasonRevised:
		why = "the rules were changed since the session was read, and the key is in another session now"
	case lock.ReasonLost:
		why = "the lock provider has ended the hold: its lease was over, or somebody ended it"
	case lock.ReasonUnfit:
		why = "the agent beside the proxy is not healthy, and its holds were released"
	case lock.ReasonNotNewest:
		why, then = "the grant is not the newest one, or is over: it was released or broken, or the session was granted to somebody else", "Acquire it again."
	default:
		why = string(e.Reason)
	}
	text := fmt.Sprintf("%v: nothing was written: %s", e.Record, why)
	if e.Grant > 0 {
		text += fmt.Sprintf(" (grant %d", e.Grant)
		if e.Newest > 0 {
			text += fmt.Sprintf(", newest %d", e.Newest)
		}
		text += ")"
	}
	if e.Holder.Held() {
		text += "; held now by " + holderText(e.Holder, now)
	}
	return text + ". " + then
}

func lockedText(e *lock.LockedError, now time.Time) string {
	if e.Deadlock {
		return fmt.Sprintf("%s deadlock: %v is held by %s, who waits for a session that this client held and has now given back. "+
			"Nothing was written; read again what you have read, then write.", e.Word, e.Record, holderText(e.Holder, now))
	}
	text := fmt.Sprintf("%s %v is held by %s", e.Word, e.Record, holderText(e.Holder, now))
	switch {
	case e.Waiting > 0:
		text += fmt.Sprintf(", and %d wait for it, as many as limits.waiters allows", e.Waiting)
	case e.Overtaken:
		text += "; a write came behind this command on the same connection, to a session that this client holds, and must not wait for it"
	case e.Waited > 0:
		text += fmt.Sprintf("; waited %v", e.Waited.Round(time.Millisecond))
	}
	return text + ". Nothing was written; try again later."
}

// holderText says who a holder is and since when.
func holderText(h tokenstore.Holder, now time.Time) string {
	if !h.Held() {
		return "another owner"
	}
	var b strings.Builder
	if h.Client != "" {
		b.WriteString("client " + h.Client)
		if h.Name != "" {
			fmt.Fprintf(&b, " (%s)", h.Name)
		}
		b.WriteString(" of ")
	}
	fmt.Fprintf(&b, "proxy %s since %s (%v ago, grant %d)", h.Proxy, h.Since.UTC().Format(time.RFC3339),
		max(now.Sub(h.Since), 0).Round(100*time.Millisecond), h.Grant)
	return b.String()
}
