package proxy

import (
	"bytes"
	"crypto/rand"
	"iter"
	"slices"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// state is what a client's upstream connection is in, as far as the guard must know.
type state struct {
	db       int
	name     string         // CLIENT SETNAME
	multi    bool           // between MULTI and EXEC or DISCARD
	refused  bool           // a command of the transaction was refused: its EXEC must fail
	selected int            // the database that the transaction is to end in, or -1
	watching bool           // the client has keys under WATCH
	proto    int            // 2 or 3
	alone    bool           // keeps to an upstream connection of its own
	login    upstream.Login // as whom the client has logged in itself
	proved   bool           // Redis lets its user WATCH, MULTI and EXEC
	known    bool           // the id of its upstream connection is known, or who ended it may be
	info     [][]byte       // CLIENT SETINFO, as it came
	library  string         // its LIB-NAME
	quiet    quiet          // CLIENT REPLY
	caching  []byte         // CLIENT CACHING, for the next command

	subscribes      bool // it may have subscriptions: see client.maySubscribe
	queuedSubscribe bool // the transaction changes subscriptions
	monitors        bool // it is sent lines of MONITOR
	tracking        bool // it is sent invalidations
	replica         bool // SYNC: what comes is no RESP any more

	queued   int       // commands in the transaction
	listings []listing // those that list keys
	switches []switched

	miscounts bool // its subscriptions make Redis send other than one reply for each command
}

// switched is a SELECT, a HELLO or an AUTH queued in the transaction.
type switched struct {
	at    int      // among the queued commands
	db    int      // of a SELECT
	proto int      // of a HELLO; 0 otherwise
	args  [][]byte // of a HELLO or an AUTH
}

const queuedReply = "+QUEUED\r\n"

func newState(db int) state { return state{db: db, proto: 2, selected: -1, proved: true} }

// endMulti is EXEC or DISCARD.
func (s *state) endMulti() {
	s.multi, s.refused, s.watching, s.selected, s.queuedSubscribe, s.miscounts = false, false, false, -1, false, false
	s.queued, s.listings, s.switches = 0, nil, nil
}

// passExec ends a transaction that is passed. One in which a command was refused must not be carried
// out.
func (c *client) passExec(req resp.Request) error {
	t := c.state
	c.state.endMulti()
	switch {
	case t.refused:
		if _, err := c.sync([]byte(discard), false); err != nil {
			return err
		}
		return c.local(resp.AppendError(nil, execAborted))
	case len(t.switches) > 0, t.queuedSubscribe, len(t.listings) > 0, c.silent:
		return c.execSwitch(req, t)
	}
	c.up.Pass(req.Raw, 1)
	return nil
}

// execSwitch executes a transaction that may change what the guard must know of the connection, lists
// keys, or has messages for a client that hears of nothing else.
func (c *client) execSwitch(req resp.Request, t state) error {
	x := c.exchange
	x.Reset(1, -1, false, nil)
	x.Subscribes = t.queuedSubscribe
	// applied yields the SELECTs and HELLOs that were carried out.
	applied := func(yield func(*switched) bool) {
		for i := range t.switches {
			element := elementOf(x.Frame(0), t.switches[i].at, t.queuedSubscribe)
			if element != nil && !isError(element) && !yield(&t.switches[i]) {
				return
			}
		}
	}
	given := c.silent || t.queuedSubscribe && !slices.ContainsFunc(t.listings, func(l listing) bool { return l.name == "randomkey" })
	var frame []byte
	var lost error
	x.After = func(m *upstream.Mode) {
		if given { // at once: of several channels in one command, more confirmations follow than EXEC has announced
			if c.silent {
				frame = messagesOf(x.Frame(0), t.queuedSubscribe)
			} else {
				frame, lost = c.unlistedExec(x.Frame(0), &t)
			}
			if lost == nil {
				_, lost = c.out.Write(frame)
			}
		}
		m.Executed(x.Frame(0))
		for s := range applied {
			if s.proto > 0 {
				m.RESP3 = s.proto == 3
			}
		}
	}
	c.up.Send(x, req.Raw)
	end := c.sendEnd(&t)
	if err := c.up.Flush(); err != nil {
		return err
	}
	for _, x := range []*upstream.Exchange{x, end} {
		if err := c.await(x); err != nil {
			return err
		}
	}
	if lost != nil {
		c.owed(lost)
		return lost
	}
	for s := range applied {
		switch {
		case s.proto > 0:
			c.greeted(s.args, s.proto)
		case s.args != nil:
			c.loggedIn(login(s.args[1:]))
		default:
			c.state.db = s.db
		}
	}
	if given {
		return nil
	}
	frame, err := c.unlistedExec(x.Frame(0), &t)
	if err != nil {
		return err
	}
	return c.local(frame)
}

// sendEnd appends what shows where the replies to an EXEC end, if Redis may send more than it says.
func (c *client) sendEnd(t *state) *upstream.Exchange {
	end := upstream.NewExchange()
	if !t.queuedSubscribe {
		end.Reset(0, -1, false, nil)
		c.up.Send(end, nil)
		return end
	}
	nonce := rand.Text()
	end.Reset(1, -1, false, nil)
	end.Nonce = []byte(nonce)
	c.up.Send(end, resp.AppendCommandStrings(nil, "PING", nonce))
	return end
}

// elementOf returns an element of an EXEC's reply, nil if there is none. Messages that were sent meanwhile are no
// elements, confirmations of subscriptions are.
func elementOf(frame []byte, at int, confirmations bool) []byte {
	for element := range elementsOf(frame) {
		if element[0] == '>' && !(confirmations && upstream.IsConfirmation(element)) {
			continue
		}
		if at--; at < 0 {
			return element
		}
	}
	return nil
}

// messagesOf returns what in an EXEC's reply is none: messages, and confirmations of subscriptions. In RESP2 there are
// some only if it subscribes.
func messagesOf(frame []byte, subscribes bool) (messages []byte) {
	for element := range elementsOf(frame) {
		if element[0] == '>' || subscribes && upstream.IsMessage(element) {
			messages = append(messages, element...)
		}
	}
	return messages
}

// elementsOf yields what is in an array.
func elementsOf(frame []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		_, null, pos, ok := resp.ArrayHeader(frame)
		for ok && !null && pos < len(frame) {
			f := resp.Framer{}
			n, done, err := f.Scan(frame[pos:])
			if err != nil || !done || !yield(frame[pos:pos+n]) {
				return
			}
			pos += n
		}
	}
}

// database returns the database that a SELECT names, -1 if Redis refuses it.
func database(args [][]byte) int {
	if len(args) != 2 {
		return -1
	}
	n, err := strconv.Atoi(string(args[1]))
	if err != nil || strconv.Itoa(n) != string(args[1]) { // Redis takes neither "+1" nor "01"
		return -1
	}
	return n
}

// selectDB notes which database the connection is in, since locks are per database.
func (c *client) selectDB(req resp.Request) error {
	x, err := c.sync(req.Raw, false)
	if err != nil {
		return err
	}
	switch reply := x.Frame(0); {
	case isError(reply):
	case string(reply) == queuedReply:
		c.state.selects(database(req.Args), c.state.queued-1)
	default:
		if n, err := strconv.Atoi(string(req.Args[1])); err == nil {
			c.state.db = n
		}
	}
	return c.local(x.Frame(0))
}

// selects notes a SELECT that is queued.
func (s *state) selects(db, at int) {
	if db >= 0 {
		s.selected = db
		s.switches = append(s.switches, switched{at: at, db: db})
	}
}

// renamed notes what HELLO, RESET and CLIENT SETNAME change.
func (c *client) renamed(name string, req resp.Request) error {
	x := c.exchange
	x.Reset(1, 0, false, always)
	proto := c.state.proto
	switch name {
	case "hello":
		if len(req.Args) > 1 {
			proto, _ = strconv.Atoi(string(req.Args[1]))
		}
		if c.state.multi {
			c.state.switches = append(c.state.switches, switched{at: c.state.queued - 1, proto: proto, args: deepClone(req.Args)})
			c.up.Pass(req.Raw, 1)
			return nil
		}
		x.After = func(m *upstream.Mode) {
			if x.StreamType != '-' {
				m.RESP3 = proto == 3
			}
		}
	case "reset":
		c.setSilent(c.skipped) // it turns replies on before it is answered
		x.After = func(m *upstream.Mode) {
			if x.StreamType == '+' {
				*m = upstream.Mode{}
			}
		}
	default:
		if c.state.multi {
			c.up.Pass(req.Raw, 1)
			return nil
		}
	}
	if err := c.roundTrip(x, req.Raw); err != nil || x.StreamType == '-' {
		return err
	}
	switch name {
	case "reset":
		alone, info, library := c.state.alone, c.state.info, c.state.library
		c.state = newState(0)
		c.state.alone, c.state.info, c.state.library = alone, info, library
		clear(c.grants)
		c.traces = traces{}
		if c.account.Load() != nil {
			c.logOut()
		} else {
			c.loggedIn(upstream.Login{})
		}
		c.watched.gone()
	case "client|setname":
		c.named(string(req.Args[2]))
	case "hello":
		c.greeted(req.Args, proto)
	}
	c.owner.Identify(c.identity())
	c.owner.Belongs(c.label())
	c.regroup = true
	return nil
}

// greeted notes what a HELLO that was carried out has changed.
func (c *client) greeted(args [][]byte, proto int) {
	c.state.proto, c.regroup = proto, true
	for i, a := range args {
		if i > 1 && i+2 < len(args) && isWord(a, "AUTH") {
			c.loggedIn(login(args[i+1 : i+3]))
		}
		if i+1 < len(args) && isWord(a, "SETNAME") {
			c.named(string(args[i+1]))
		}
	}
}

func deepClone(args [][]byte) [][]byte {
	all := make([][]byte, len(args))
	for i, a := range args {
		all[i] = bytes.Clone(a)
	}
	return all
}

// auth notes as whom a client logs in.
func (c *client) auth(req resp.Request) error {
	x, err := c.sync(req.Raw, true)
	if err == nil && x.StreamType == '+' {
		c.loggedIn(login(req.Args[1:]))
	}
	return err
}

func login(args [][]byte) upstream.Login {
	l := make(upstream.Login, len(args))
	for i, a := range args {
		l[i] = string(a)
	}
	return l
}

// loggedIn notes that the client's own connection is somebody else's now.
func (c *client) loggedIn(as upstream.Login) {
	c.state.login, c.state.proved, c.regroup, c.identified = as, false, true, false
	c.owner.Belongs(c.label())
	c.dropAside()
	c.srv.logins.leave(c.shares)
	c.shares, c.shared, c.met = c.srv.join(as), nil, nil
}
