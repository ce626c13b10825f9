package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A blocking command on a guarded key can't block at Redis: what it takes must be taken under the check.
// Inside MULTI it doesn't block. So it is tried under the guard when there is something for it; until then
// the client stands by, holds no session, and the proxy asks from time to time:
//
//	stand by  BLPOP of a list of its own: Redis counts the client as blocked, and CLIENT UNBLOCK finds it
//	ask       TYPE of each key, or how far the stream is, on a shared connection: no script, no lock
//	rouse     what ends the BLPOP
//	try       as any guarded command, without waiting in line for a holder
//
// What Redis says of the arguments and when the time is over comes from Redis itself, by the same command
// on a key that nobody writes.

const (
	// askFirst and askMost are the pauses between asking, in which it backs off.
	askFirst, askMost = 5 * time.Millisecond, 100 * time.Millisecond
	// askBehind is the pause of those who stand behind others: in case they were forgotten.
	askBehind = time.Second
)

// A try comes to nothing if there is nothing, or while somebody holds the session.
var (
	errNothing = errors.New("there is nothing")
	errNotNow  = errors.New("somebody holds the session")
)

// blocker knows how one kind of command blocks.
type blocker struct {
	kind    string // the type of key it waits for
	timeout func(args [][]byte) int
	from    int // where the only key is that it waits for; 0: it waits for all of its keys
}

func last(args [][]byte) int { return len(args) - 1 }
func second([][]byte) int    { return 1 }

// blockers are the commands that may block, by name. Where the timeout is can't be told from the
// server's table.
var blockers = map[string]blocker{
	"blpop": {"list", last, 0}, "brpop": {"list", last, 0}, "blmpop": {"list", second, 0},
	"blmove": {"list", last, 1}, "brpoplpush": {"list", last, 1},
	"bzpopmin": {"zset", last, 0}, "bzpopmax": {"zset", last, 0}, "bzmpop": {"zset", second, 0},
	"xread": {"stream", blockOption, 0}, "xreadgroup": {"stream", blockOption, 0},
}

// blockOption is where the milliseconds of XREAD's BLOCK are, or 0.
func blockOption(args [][]byte) (at int) {
	for i := 1; i+1 < len(args); i++ {
		switch {
		case isWord(args[i], "BLOCK"):
			i++
			at = i // the last one counts
		case isWord(args[i], "STREAMS"):
			return at
		case isWord(args[i], "GROUP"):
			i += 2
		case isWord(args[i], "COUNT"):
			i++
		}
	}
	return at
}

func isWord(arg []byte, word string) bool { return command.IsWord(arg, word) }

// blocks reports whether a call may block.
func blocks(cmd *command.Command, args [][]byte) bool {
	if !cmd.Is(command.FlagBlocking) || !cmd.Fits(len(args)) {
		return false
	}
	b, ok := blockers[cmd.Name]
	return !ok || b.timeout(args) > 0
}

// wait is a blocking command under way.
type wait struct {
	blocker
	args  [][]byte
	at    int           // of the timeout
	calls []command.Key // of the call
	keys  [][]byte      // what it waits for
	until time.Time     // zero: for ever
	looks bool          // it changes nothing
	try   []byte        // the command as it is tried
	tried bool          // Redis had nothing against it, and nothing for it
	ids   [][]byte      // of XREAD: what it has seen of each stream
	group []byte        // of XREADGROUP
	there bool          // … and it was there

	sleeper *sleeper
	standby *upstream.Exchange // Done when the client stands by no more
	call    *upstream.Call     // asks and rouses meanwhile; nil before
	asked   int                // how often it was asked
}

// block runs a guarded command that blocks.
func (c *client) block(cmd *command.Command, p plan, req resp.Request) error {
	if err := c.link(); err != nil {
		return &downError{p.sessions(), err}
	}
	w := &wait{blocker: blockers[cmd.Name], args: req.Args, looks: !p.writes}
	w.at = w.timeout(w.args)
	complete := false
	if w.calls, complete = cmd.Keys(nil, w.args); !complete {
		w.calls = w.anyKeys()
	}
	switch refusal, err := c.arguments(w, complete); {
	case err != nil:
		return err
	case refusal != nil:
		return c.local(refusal)
	case !complete:
		return &deniedError{reason: fmt.Sprintf("%s: the keys of this call can't be told", cmd.Name)}
	}
	run := c.read
	if p.writes {
		run = c.write
	}
	hashes := make([]uint64, len(w.keys))
	for i, key := range w.keys {
		hashes[i] = maphash.Bytes(hashSeed, key)
	}
	w.sleeper = newSleeper(hashes, !p.writes, maphash.Bytes(hashSeed, w.group))
	c.srv.blocked.join(w.sleeper)
	defer c.srv.blocked.leave(w.sleeper)
	for ready, err := c.ready(w); ; ready = true {
		if err != nil {
			return err
		}
		if ready {
			if p.rules != c.srv.rules.now() {
				p = c.planAnew(p, cmd, req.Args)
			}
			err := c.guarded(p, body{name: cmd.Name, verb: cmd.Verb, raw: w.try, count: 1, now: true}, run)
			var taken *lock.LockedError // by another connection of the same owner
			switch {
			case errors.Is(err, errNothing):
				w.tried = true
			case !errors.Is(err, errNotNow) && !errors.As(err, &taken):
				return err
			}
		}
		w.tried = w.tried || !ready
		if w.call == nil {
			if err := c.letGo(p); err != nil {
				return err
			}
			w.standby, w.call = upstream.NewExchange(), upstream.NewCall()
		}
		switch reply, err := c.standBy(w); {
		case err != nil:
			return err
		case isNil(reply):
			return c.timedOut(w)
		case isError(reply):
			return c.local(reply)
		}
	}
}

// planAnew is the plan of a command that has waited while the rules were revised. One whose keys they do not guard goes
// on as it was.
func (c *client) planAnew(p plan, cmd *command.Command, args [][]byte) plan {
	p.rules, p.parts = c.srv.rules.now(), slices.Clone(p.parts)
	if next, err := c.plan(cmd, args); err == nil && len(next.parts) > 0 {
		return next
	}
	return p
}

// standBy waits until there may be something for the client, or its wait has ended in another way. reply is
// that of the BLPOP.
func (c *client) standBy(w *wait) (reply []byte, err error) {
	left := time.Duration(0)
	if !w.until.IsZero() {
		left = max(time.Until(w.until), 1)
	}
	w.standby.Reset(1, -1, false, nil)
	c.up.Send(w.standby, c.srv.store.AppendStandby(nil, c.waiter.ID(), left))
	if err := c.up.Flush(); err != nil {
		return nil, err
	}
	for ; ; w.asked++ {
		pause := min(askFirst<<min(w.asked, 16), askMost)
		if !c.srv.blocked.turn(w.sleeper) {
			pause = askBehind
		}
		switch over, err := c.sleep(w, pause); {
		case over:
			return w.standby.Frame(0), w.standby.Err
		case errors.Is(err, errStopping):
			return nil, c.standDown(w, err)
		case err != nil:
			return nil, err
		}
		switch ready, err := c.ready(w); {
		case errors.Is(err, errStreamGone):
			return nil, c.standDown(w, err)
		case err != nil:
			return nil, err
		case ready:
			if err := c.rouse(w); err != nil {
				return nil, err
			}
		}
	}
}

// rouse makes Redis end the client's standing by.
func (c *client) rouse(w *wait) error {
	_, err := c.askShared(w, c.srv.store.AppendRouse(nil, c.waiter.ID()), tokenstore.RouseFrames, true)
	return err
}

// standDown ends the client's standing by for an error, which the client could not hear before.
func (c *client) standDown(w *wait, why error) error {
	if err := c.rouse(w); err != nil {
		return err
	}
	within(w.standby.Done, lastReplies)
	return why
}

// letGo gives back the holds of a client that goes to sleep, unless other connections have a part in
// them: what it read is not to keep others from writing what it waits for. It may still be written, if nobody
// comes in between.
func (c *client) letGo(p plan) error {
	for i := range p.parts {
		s := p.parts[i].sequence
		if s.State() != lock.Held || !s.Alone(c) {
			continue
		}
		in, err := c.enter(s, s.Rule.Wait, nil, nil)
		if err != nil {
			return err
		}
		if in {
			s.Abandon(context.Background())
			s.Leave()
		}
	}
	return nil
}

// anyKeys are all arguments that may be keys of a malformed call.
func (w *wait) anyKeys() (keys []command.Key) {
	from := 3 // behind a timeout and the number of keys
	if w.kind == "stream" {
		for from = 1; from < len(w.args) && !isWord(w.args[from], "STREAMS"); from++ {
			if isWord(w.args[from], "GROUP") {
				from += 2 // one may be called "STREAMS"
			}
		}
		from++
	}
	for i := from; i < len(w.args); i++ {
		keys = append(keys, command.Key{Index: i})
	}
	return keys
}

// arguments reads the arguments of a blocking command. refusal is what Redis has against them. If its keys are not
// complete, it is only asked for that.
func (c *client) arguments(w *wait, complete bool) (refusal []byte, err error) {
	up, err := c.writesOn(body{})
	if err != nil {
		return nil, err
	}
	if refusal, err := c.prove(body{}); err != nil || refusal != nil {
		return refusal, err // outside MULTI it would block
	}
	refusal, err = c.tryArguments(up, w.standIn(w.args[w.at]))
	switch {
	case err != nil:
		return nil, err
	case w.looks && bytes.HasPrefix(refusal, []byte("-ERR ")): // a key of the wrong type may come before it
		if own, err := c.tryArguments(up, w.args); err != nil || own != nil {
			return own, err
		}
		return refusal, nil
	case refusal != nil:
		return refusal, nil
	case !complete:
		return nil, nil
	}
	unit := time.Second
	if w.kind == "stream" {
		unit = time.Millisecond
	}
	n, err := strconv.ParseFloat(string(w.args[w.at]), 64)
	if err != nil {
		return nil, &deniedError{reason: fmt.Sprintf("the timeout %q can't be read", clip(w.args[w.at]))}
	}
	if n *= float64(unit); n > 0 && n < math.MaxInt64/2 {
		w.until = time.Now().Add(time.Duration(math.Ceil(n)))
	}
	for _, key := range w.calls {
		if w.from == 0 || key.Index == w.from {
			w.keys = append(w.keys, w.args[key.Index])
		}
	}
	if w.kind == "stream" {
		return c.streams(w)
	}
	w.try = resp.AppendCommand(nil, w.args...)
	return nil, nil
}

// tryArguments returns what Redis has against a call that does not block inside MULTI, nil if nothing. That a
// group is not there does not count.
func (c *client) tryArguments(up *upstream.Conn, args [][]byte) (refusal []byte, err error) {
	c.send = append(resp.AppendCommand(append(c.send[:0], multi...), args...), exec...)
	if up == c.up {
		c.unwatch() // or EXEC might answer nil for the fence's WATCH
	}
	x := c.exchange
	x.Reset(3, -1, true, nil)
	if err := c.roundTripOn(up, x, c.send); err != nil {
		return nil, err
	}
	for _, i := range []int{1, 2} {
		if isError(x.Frame(i)) && (i == 1 || x.Opened) && !bytes.HasPrefix(x.Frame(i), []byte("-NOGROUP ")) {
			return bytes.Clone(x.Frame(i)), nil
		}
	}
	return nil, nil
}

// standIn is a call with this timeout that waits for what nobody writes.
func (w *wait) standIn(timeout []byte) [][]byte {
	args := slices.Clone(w.args)
	for _, key := range w.calls {
		args[key.Index] = []byte(tokenstore.Prefix)
	}
	args[w.at] = timeout
	return args
}

// timedOut gives the client what Redis says when the time is over.
func (c *client) timedOut(w *wait) error {
	over := resp.AppendCommandStrings(nil, "XREAD", "BLOCK", "1", "STREAMS", tokenstore.Prefix, "$")
	if w.kind != "stream" {
		over = resp.AppendCommand(nil, w.standIn([]byte("0.002"))...)
	}
	_, err := c.sync(over, true)
	return err
}

// ready reports whether a try may come to something. What Redis will refuse counts as well at first; who
// has begun to wait waits on for the right type.
func (c *client) ready(w *wait) (bool, error) {
	if w.kind == "stream" {
		return c.streamReady(w)
	}
	var types []byte
	for _, key := range w.keys {
		types = resp.AppendCommand(types, []byte("TYPE"), key)
	}
	replies, err := c.ask(w, types, len(w.keys))
	for _, kind := range replies {
		if kind[0] == '-' || string(kind) == "+"+w.kind+"\r\n" || !w.tried && string(kind) != "+none\r\n" {
			return true, err
		}
	}
	return false, err
}

// ask sends requests, unguarded, and returns so many replies: at first, on the client's own connection, for its
// user may not be allowed to; while that stands by, on a shared one.
func (c *client) ask(w *wait, requests []byte, n int) ([][]byte, error) {
	if w.call != nil {
		return c.askShared(w, requests, n, false)
	}
	c.exchange.Reset(n, -1, false, nil)
	if err := c.roundTrip(c.exchange, requests); err != nil {
		return nil, err
	}
	replies := make([][]byte, n)
	for i := range replies {
		replies[i] = c.exchange.Frame(i)
	}
	return replies, nil
}

func (c *client) askShared(w *wait, requests []byte, n int, writes bool) ([][]byte, error) {
	w.call.Requests, w.call.Frames = requests, n
	if err := c.srv.shares.get(shareKey{c.state.db, c.state.proto, writes}).Do(w.call); err != nil {
		return nil, err
	}
	defer w.call.Release()
	return split(bytes.Clone(w.call.Replies))
}

// split takes replies apart.
func split(replies []byte) (frames [][]byte, err error) {
	for framer := (resp.Framer{}); len(replies) > 0; {
		n, _, err := framer.Scan(replies)
		if err != nil {
			return nil, err
		}
		frames, replies = append(frames, replies[:n]), replies[n:]
	}
	return frames, nil
}

// isNil reports whether a reply is one of the nils.
func isNil(frame []byte) bool {
	return string(frame) == "*-1\r\n" || string(frame) == "$-1\r\n" || string(frame) == "_\r\n"
}
