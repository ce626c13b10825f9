package telemetry

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// identity is by what a sequence's span is known. Whoever knows a session and a grant can work out the span of the
// hold, so that a proxy can link to those of others without having asked them; salt keeps sessions from being guessed.
type identity struct {
	trace trace.TraceID
	span  trace.SpanID
}

// hold names a hold: all proxies know it by the same name.
type hold struct {
	db            int
	slot          string
	rule, session string
	grant         uint64
}

// longSession is beyond what is kept of a session's name, in bytes. A longer one is known by its hash.
const longSession = 256

// ids makes identities.
type ids struct {
	salt string // shared by all proxies of a Redis
	own  string // this process's, for what has no grant
}

func newIDs(salt string) ids { return ids{salt: salt, own: rand.Text()} }

// ofHold is the identity of a hold's sequence, unless the application has given another trace: then that is its trace.
func (i ids) ofHold(h hold) identity {
	return i.derive("hold", strconv.Itoa(h.db), h.rule, h.session, strconv.FormatUint(h.grant, 10))
}

// ofSequence is the identity of a sequence of this process that has no grant.
func (i ids) ofSequence(n uint64) identity {
	return i.derive("sequence", i.own, strconv.FormatUint(n, 10))
}

func (i ids) derive(parts ...string) (id identity) {
	sum := i.sum(parts)
	copy(id.trace[:], sum[:16])
	copy(id.span[:], sum[16:24])
	id.span[7] |= 1 // none is all zeros
	id.trace[0] |= 1
	return id
}

// session is the name under which a session is shown.
func (i ids) session(rule, session string) string {
	sum := i.sum([]string{"session", rule, short(session)})
	return hex.EncodeToString(sum[:8])
}

func (i ids) sum(parts []string) [sha256.Size]byte {
	text := make([]byte, 0, 256)
	text = append(text, i.salt...)
	for _, part := range parts {
		text = strconv.AppendInt(append(text, 0), int64(len(part)), 10)
		text = append(append(text, ' '), part...)
	}
	return sha256.Sum256(text)
}

// short returns a session's name in a form that may be kept.
func short(session string) string {
	if len(session) <= longSession {
		return session
	}
	sum := sha256.Sum256([]byte(session))
	return strings.Clone(session[:64]) + " " + hex.EncodeToString(sum[:])
}
