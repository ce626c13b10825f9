package proxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/account"
	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/observe"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/socket"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// lastReplies is how long a client that is to go may take to get the replies under way.
const lastReplies = 250 * time.Millisecond

// client is one connection from an agent.
type client struct {
	srv *Server
	nc  *socket.Conn
	in  input
	out downstream
	up  *upstream.Conn // the client's own upstream connection, nil until it is needed

	received   chan struct{}  // closed when up has ended
	receivers  sync.WaitGroup // of up, and of those in whose place it is
	identified bool           // Redis was asked for the name of up

	call       *upstream.Call // commands collected for a shared connection
	callWrites bool
	apart      bool             // they go over its own connection all the same
	bulk       int              // how often commands still do, since it moves much at once
	shares     *shares          // of those who are the same user; nil: it shares with nobody
	shared     *upstream.Shared // the one used last
	sharedKey  shareKey
	met        []*upstream.Shared // that are known to be of its user, if it has logged in
	ownUsed    time.Time          // when a client that has logged in last used up instead

	came    int       // commands since the last flush
	tally   *tally    // where they are counted
	timing  time.Time // when the batch at hand came, if it is timed (sample.go)
	untimed int       // batches until one is

	parser *resp.RequestParser
	ease   int // commands until it is looked again how many are unanswered (pipeline.go)
	state  state
	owner  *lock.Owner  // this connection as an owner
	waiter *lock.Waiter // its place in line

	account  atomic.Pointer[account.Account] // as which of the proxy's users it has logged in (admit.go); nil: there are none
	stopping atomic.Bool                     // the server wants it to go
	expelled atomic.Bool                     // since its user is gone
	lost     atomic.Bool                     // the upstream connection has ended
	stranded atomic.Bool                     // and the client is kept to hear of it (stranded.go)
	adrift   atomic.Bool                     // the upstream connection has ended, the next command gets a new one (carry.go)
	leaving  atomic.Bool                     // the client itself has ended
	handling sync.Mutex                      // held while a command is under way
	watched  watched                         // the fence that stands on the upstream connection
	watches  watches                         // the keys under a WATCH of the client's own
	inLine   place                           // where it waits in line
	circle   tokenstore.Circle               // what it has to yield when it is deadlocked
	wayGiven reason                          // why it must not wait there any more
	wanted   chan struct{}                   // somebody comes for a turn that it lends
	several  bool                            // it has sent a command while another waited in line
	blocks   bool                            // its upstream connection waits at the store
	blocking bool                            // a command that may block was passed, and may not have been answered
	tx       transaction
	patterns patterns // by which it has read
	behind   unheard
	aside    *aside // the client's second upstream connection, nil until it is needed
	joined   bool   // it has a part in sequences of the proxy's owner or a group's
	groups   map[rule.ClientBy]*group
	regroup  bool   // what tells its group has changed
	silent   bool   // it does not hear of the present command (quiet.go)
	skipped  bool   // … since CLIENT REPLY SKIP came before it
	armed    []byte // the CLIENT CACHING that is about it (tracking.go)
	carried  bool   // its upstream connection is not its first

	elsewhere elsewhere
	grants    grants // that it has acquired, and acts under
	doing     uint64 // the grant that the present command is done under (do.go)
	traces    traces // of the application

	seen    *observe.Conn // nil unless the proxy observes
	library struct{ name, version string }

	// The command at hand:
	cmd  *command.Command // nil: it is not known, or the proxy's own
	word *word            // of these

	// Used again by each command:
	exchange *upstream.Exchange
	answered time.Time // when the read under way was answered, at the earliest
	seenTo   int64     // what had been read of the client when it was sent
	unseen   int       // what had come since, at least
	behindIt bool      // it was not, since others are to write before (straggler.go)
	timer    *time.Timer
	send     []byte
	keys     []command.Key
	parts    []part
	turning  []part // those of the present command, or the last one
	reading  []part // those that it reads
	passing  error  // why it goes through unguarded (outside.go)
	session  []byte
	asks     []ask
	commit   commit
	replicas int // how many have the commit, where a rule asks for that
}

func newClient(s *Server, conn net.Conn) *client {
	nc := socket.New(conn)
	c := &client{
		srv: s, nc: nc, shares: s.shares,
		parser: resp.NewRequestParser(s.requests()), state: newState(s.upstream.Options.DB),
		call:     upstream.NewCall(),
		exchange: upstream.NewExchange(), timer: time.NewTimer(time.Hour),
		tally: s.tallies.next(), untimed: rand.N(timedEvery),
	}
	if s.accounts.Load() != nil {
		c.account.Store(stranger)
		c.parser.Limit(s.requestsOfStrangers())
	}
	nc.Count(&s.bytes)
	c.timer.Stop()
	c.state.proved = !s.unproved
	c.out.open(nc, int(s.limits.Load().OutputBuffer))
	return c
}

// run is the client's life. Its functions, down to where the next command is waited for, have small frames: then an idle client's
// stack can be a small one again, whatever a command of its took.
func (c *client) run() {
	defer c.nc.Close()
	c.arrive()
	c.depart(c.commands())
}

// arrive makes the client known.
func (c *client) arrive() {
	c.owner = c.srv.locks.Owner(c.identity())
	c.owner.Belongs(c.label())
	c.waiter = c.srv.locks.Waiter()
	if c.srv.observer != nil {
		c.seen = c.srv.observer.Connect(c.address())
	}
}

// depart lets go of all that the client has, when an error has ended its commands.
func (c *client) depart(err error) {
	if errors.Is(err, io.EOF) {
		c.hearOut()
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(lastReplies))
	c.srv.log.Debug("client left", "client", c.address(), "name", c.state.name, "reason", err)
	if c.stopping.Load() {
		c.finish()
	}
	c.unlink()
	c.in.close()
	c.out.close()
	c.waiter.Close()
	c.owner.Close()
	if c.joined {
		c.srv.owner.Leave(c)
	}
	c.leaveGroups()
}

// commands handles the client's commands, one after the other, until it leaves.
func (c *client) commands() error {
	for {
		req, err := c.next()
		if err != nil {
			return err
		}
		if err := c.process(req); err != nil {
			return err
		}
	}
}

// process handles one command.
func (c *client) process(req resp.Request) error {
	c.handling.Lock()
	defer c.handling.Unlock()
	if c.isStranger() {
		return c.admit(req)
	}
	return c.handle(req)
}

// next returns the client's next command. Before it waits for one, everything that is on its way
// is sent.
func (c *client) next() (resp.Request, error) {
	if err := c.pace(); err != nil {
		return resp.Request{}, err
	}
	for {
		req, n, err := c.parser.Next(c.in.bytes())
		if err != nil {
			c.turnAway(err)
			return req, err
		}
		if n > 0 {
			c.came++
			c.in.consume(n)
			if len(req.Args) == 0 {
				continue
			}
			return req, nil
		}
		had := len(c.in.bytes())
		if err := c.flush(); err != nil {
			return req, err
		}
		if len(c.in.bytes()) > had {
			continue // it was read ahead meanwhile
		}
		if c.lost.Load() && !c.stranded.Load() || c.stopping.Load() {
			return req, c.gone()
		}
		if err := c.in.fill(c.nc, c.parser.Missing()); err != nil {
			return req, err
		}
		if c.in.taken == 0 && c.speaksTLS() {
			return req, errTLS
		}
		c.sample()
	}
}

// turnAway refuses a request that can't be read.
func (c *client) turnAway(err error) {
	c.hush()
	_ = c.refuse(c.unread(err))
	_ = c.flush()
	c.finish()
}

func (c *client) flush() error {
	c.batch()
	c.call.Timed = !c.timing.IsZero()
	if err := c.sendShared(); err != nil {
		return c.broken(err)
	}
	if c.holding() {
		c.handling.Lock()
		err := c.try()
		c.handling.Unlock()
		if err != nil {
			return err
		}
	}
	if c.up != nil {
		c.time()
		if err := c.up.Flush(); err != nil {
			return err
		}
	}
	if err := c.out.Push(); err != nil {
		return err
	}
	c.timed()
	return nil
}

// handle is one command's way: what does it mean, and what is done about it?
func (c *client) handle(req resp.Request) error {
	c.hush()
	if isSaid(req.Args[0]) {
		c.arm(nil)
		return c.say(req)
	}
	if c.srv.node && !c.holding() && !c.state.multi && aboutNodes(req.Args) {
		c.arm(nil)
		return c.asNode(req.Args, req.Raw)
	}
	cmd, _ := c.srv.commands.table.Lookup(req.Args)
	c.cmd, c.traces.now = cmd, nil
	c.arm(cmd)
	if cmd != nil && cmd.Is(command.FlagNoAuth) && c.account.Load() != nil {
		if done, err := c.logsIn(cmd, &req); done || err != nil {
			return err
		}
	}
	p, err := c.plan(cmd, req.Args)
	switch {
	case c.stranded.Load():
		return c.refuseStranded(p)
	case c.holding():
		return c.enqueue(cmd, p, req, err)
	case c.state.replica && (err != nil || len(p.parts)+len(p.reached) > 0):
		return errReplica
	case err == nil && len(p.parts) == 0 && (len(p.reached) == 0 || c.state.multi):
		c.readBy(p.reached)
		return c.pass(cmd, req)
	}
	if refused, err := c.refusedByRedis(cmd, req); refused || err != nil {
		return err
	}
	if err != nil {
		return c.deny(req, err)
	}
	if len(p.parts) == 0 {
		return c.passPatterns(p, req)
	}
	return c.guard(cmd, p, req)
}

// guard carries out a command that touches guarded keys.
func (c *client) guard(cmd *command.Command, p plan, req resp.Request) error {
	switch {
	case blocks(cmd, req.Args):
		return c.answerError(c.block(cmd, p, req))
	case p.writes:
		return c.answerError(c.guarded(p, body{name: cmd.Name, verb: cmd.Verb, raw: req.Raw, count: 1}, c.write))
	default:
		return c.answerError(c.guarded(p, body{name: cmd.Name, verb: cmd.Verb, raw: req.Raw, count: 1}, c.read))
	}
}

// answerError answers a command with what came of it, unless it is nil. What it returns ends the
// client.
func (c *client) answerError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errGone), errors.Is(err, errParted): // which Redis ends without a word
		return err
	case fatal(err):
		_ = c.refuse(err)
		return err
	default:
		return c.refuse(err)
	}
}

// fatal reports whether an error ends the client.
func fatal(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, errParted) || errors.Is(err, errStopping) || errors.Is(err, errRemoved) || errors.Is(err, upstream.ErrLost)
}

// sync sends one command and waits for its reply: streamed to the client, or kept.
func (c *client) sync(raw []byte, stream bool) (*upstream.Exchange, error) {
	x := c.exchange
	if stream {
		x.Reset(1, 0, false, always)
	} else {
		x.Reset(1, -1, false, nil)
	}
	return x, c.roundTrip(x, raw)
}

func always(byte) bool { return true }

// broken tells the client that an upstream connection broke or could not be made.
func (c *client) broken(err error) error {
	c.srv.log.Warn("client turned away", "client", c.address(), "error", err)
	if !c.silent {
		_, _ = c.out.Write(resp.AppendError(nil, "ERR fence-proxy: "+err.Error()))
	}
	return err
}

// refuse answers a command with an error line.
func (c *client) refuse(err error) error {
	c.logRefusal(err)
	c.behind.refused(c, err)
	return c.local(errorLine(err, time.Now()))
}

// finish lets the replies under way reach the client. What is said in their place comes behind, and has as long.
func (c *client) finish() {
	for end := time.Now().Add(lastReplies); c.up != nil && c.up.Outstanding() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_ = c.nc.SetWriteDeadline(time.Now().Add(lastReplies))
	_ = c.out.Flush()
}

// stop makes the client go once its present command is done.
func (c *client) stop() {
	c.stopping.Store(true)
	_ = c.nc.SetReadDeadline(past)
}

// gone says why a client is no longer served.
func (c *client) gone() error {
	switch {
	case c.lost.Load():
		return upstream.ErrLost
	case c.expelled.Load():
		return errRemoved
	case c.stopping.Load():
		return errStopping
	}
	return errGone
}

// identity is who the client is, for messages.
func (c *client) identity() tokenstore.Identity {
	return tokenstore.Identity{Proxy: c.srv.name, Client: c.address(), Name: c.state.name}
}

// label says of which client the connection is one, for what mode auto learns.
func (c *client) label() string { return c.user() + "/" + c.state.library + "/" + c.state.name }

func (c *client) address() string {
	if a := c.nc.RemoteAddr().String(); a != "" && a != "@" {
		return a
	}
	return "unix socket"
}
