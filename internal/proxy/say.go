package proxy

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Clients may say what they want in so many words: FENCE.ACQUIRE and its kind. These commands are the
// proxy's own, and Redis never hears of them; but whoever may not touch a key at Redis may not touch its
// session either (rights.go).

// said begins the names of the proxy's own commands.
var said = []byte("fence.")

// isSaid reports whether a command is the proxy's own.
func isSaid(name []byte) bool {
	return len(name) > len(said) && name[len(said)-1] == '.' && bytes.EqualFold(name[:len(said)], said)
}

// word is one of the proxy's own commands.
type word struct {
	name  string
	arity int // as Redis counts: with the name; negative: at least
	usage string
	what  string // line by line
}

// words are all of them, in the order in which FENCE.HELP has them.
var words = [...]word{
	{
		"fence.acquire", -2, "FENCE.ACQUIRE <key> [TTL <ms>] [WAIT <ms>]",
		"Take the session of the key and return its grant. The grant may be handed on: it does not end with the\n" +
			"connection, but with FENCE.RELEASE, or after TTL. This connection's commands run under it.",
	},
	{
		"fence.renew", -3, "FENCE.RENEW <key> <grant> [TTL <ms>]",
		"Let the grant last for TTL from now, and return the milliseconds.",
	},
	{
		"fence.release", 3, "FENCE.RELEASE <key> <grant>",
		"End the grant and hand the session on. Return 1, or 0 if it had ended.",
	},
	{
		"fence.do", -3, "FENCE.DO <grant> <command> [<arg> ...]",
		"Run a command under a grant, from whatever connection. It is refused unless the grant is the newest.",
	},
	{
		"fence.once", -4, "FENCE.ONCE <id> <ttl> <command> [<arg> ...]",
		"Carry a write out once, and give whoever says it again with the same id within ttl the same reply.",
	},
	{
		"fence.trace", -2, "FENCE.TRACE <traceparent> [<tracestate>]",
		"Say of which trace of yours (W3C Trace Context) the next guarded command is part, and the sequences that it\n" +
			"begins.",
	},
	{
		"fence.inspect", 2, "FENCE.INSPECT <key>",
		"Show the session of the key: grants, who holds it, who waits.",
	},
	{
		"fence.list", -1, "FENCE.LIST [<rule>]",
		"List the sessions of this database that are held.",
	},
	{
		"fence.explain", 2, "FENCE.EXPLAIN <key>",
		"Say which rule guards the key and how, and as whom this connection acts.",
	},
	{
		"fence.break", 2, "FENCE.BREAK <key>",
		"End whatever hold there is on the session of the key. For users who may use the admin commands of Redis.",
	},
	{
		"fence.help", 1, "FENCE.HELP",
		"Print this help.",
	},
}

func (w *word) fits(n int) bool { return n == w.arity || w.arity < 0 && n >= -w.arity }

func wordOf(name []byte) *word {
	for i := range words {
		if strings.EqualFold(string(name), words[i].name) {
			return &words[i]
		}
	}
	return nil
}

// errInTransaction is what Redis says of commands that it does not queue.
const errInTransaction = wordError("ERR Command not allowed inside a transaction")

// say carries out one of the proxy's own commands.
func (c *client) say(req resp.Request) error {
	c.parts, c.cmd, c.traces.now = c.parts[:0], nil, nil
	switch {
	case c.stranded.Load():
		return c.refuseStranded(plan{})
	case c.state.replica:
		return errReplica
	}
	w := wordOf(req.Args[0])
	c.word = w
	defer func() { c.word = nil }()
	err := misspoken(w, req.Args)
	if c.state.multi {
		if c.holding() {
			if begun, lost := c.tried(); !begun || lost != nil {
				return c.alone(req, lost)
			}
		}
		if err == nil {
			err = errInTransaction
		}
		c.state.refused = true
		return c.refuse(err)
	}
	if err != nil {
		return c.refuse(err)
	}
	if err := c.link(); err != nil {
		return c.broken(err)
	}
	switch deaf, err := c.isDeaf(false); {
	case err != nil:
		return err
	case deaf && c.state.monitors:
		return c.refuse(wordError("ERR Replica can't interact with the keyspace"))
	case deaf:
		return c.refuse(wordError("ERR Can't execute '" + w.name +
			"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"))
	}
	return c.answerError(c.carryOut(w, req.Args))
}

func (c *client) carryOut(w *word, args [][]byte) error {
	switch w.name {
	case "fence.acquire":
		return c.acquire(args)
	case "fence.renew":
		return c.renew(args)
	case "fence.release":
		return c.releaseGrant(args)
	case "fence.do":
		return c.doUnder(args)
	case "fence.once":
		return c.once(args)
	case "fence.trace":
		return c.traced(args)
	case "fence.inspect":
		return c.inspect(args[1])
	case "fence.list":
		return c.listHolds(args)
	case "fence.explain":
		return c.explain(args[1])
	case "fence.break":
		return c.breakHold(args[1])
	}
	return c.help()
}

// misspoken is what is wrong with a command before it is looked at.
func misspoken(w *word, args [][]byte) error {
	switch {
	case w == nil:
		return wordError(fmt.Sprintf("ERR unknown command '%s'. Try FENCE.HELP.", clip(args[0])))
	case !w.fits(len(args)):
		return wordError("ERR wrong number of arguments for '" + w.name + "' command")
	}
	return nil
}

func (c *client) help() error {
	lines := 0
	var out []byte
	for i := range words {
		out = resp.AppendSimple(out, words[i].usage)
		lines++
		for text := range strings.SplitSeq(words[i].what, "\n") {
			out = resp.AppendSimple(out, "    "+text)
			lines++
		}
	}
	head := "Times are milliseconds, or have a unit: 30s. A session is named by any of its keys. The commands are:"
	out = append(resp.AppendSimple(resp.AppendArray(nil, lines+1), head), out...)
	return c.local(out)
}

// subject is the session that a command is about.
type subject struct {
	key    []byte
	rule   *rule.Rule // that of keys which no rule guards, if none does
	record *tokenstore.Record
	grants *tokenstore.Record // that of grants which are acquired by themselves
}

// subjectOf finds the session of a key. The error is a *deniedError.
func (c *client) subjectOf(key []byte) (subject, error) {
	if isReserved(key) {
		return subject{}, reserved(key)
	}
	r := c.guardedBy(key)
	if r == nil {
		r = c.srv.bare
	}
	c.session = r.AppendSession(c.session[:0], key)
	sub := subject{key: key, rule: r, record: tokenstore.NewRecord(c.area(r, key), r.Name, string(c.session))}
	sub.grants = sub.record
	if at := grantsAt(sub.record.Area, r, c.session); at != sub.record.Area {
		sub.grants = tokenstore.NewRecord(at, r.Name, sub.record.Session)
	}
	return sub, nil
}

// claim is what the client brings to a session when it acts on it from outside, as on a grant.
func (c *client) claim(s subject, lease time.Duration) *tokenstore.Claim {
	return tokenstore.NewClaim(tokenstore.ApartPrefix+c.owner.ID, c.identity(), lease, s.rule.RecordTTL)
}

// asking bounds one of the client's questions to the store.
func asking() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), giveBack)
}

// period reads a time: milliseconds, or a number with a unit. Its limits are least and most.
func period(name string, text []byte, least, most time.Duration) (time.Duration, error) {
	var d time.Duration
	ms, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err == nil && ms >= 0 && ms <= math.MaxInt64/int64(time.Millisecond):
		d = time.Duration(ms) * time.Millisecond
	case err == nil:
		d = -1
	default:
		if d, err = time.ParseDuration(string(text)); err != nil {
			return 0, wordError(fmt.Sprintf("ERR %s is no time: write milliseconds, or a number with a unit such as 30s", name))
		}
	}
	if d < least || d > most {
		return 0, wordError(fmt.Sprintf("ERR %s must be between %d and %d ms (%s)", name, least.Milliseconds(), most.Milliseconds(), rule.Text(most)))
	}
	return d, nil
}

// grantOf reads a grant.
func grantOf(text []byte) (uint64, error) {
	n, err := strconv.ParseUint(string(text), 10, 63)
	if err != nil || n == 0 {
		return 0, wordError("ERR the grant is not an integer that FENCE.ACQUIRE gave")
	}
	return n, nil
}

// options reads "TTL ms" and "WAIT ms" in any order; the last of each counts.
func options(args [][]byte, known map[string]func(text []byte) error) error {
	for len(args) > 0 {
		read := known[string(bytes.ToUpper(args[0]))]
		if read == nil || len(args) < 2 {
			return wordError("ERR syntax error")
		}
		if err := read(args[1]); err != nil {
			return err
		}
		args = args[2:]
	}
	return nil
}
