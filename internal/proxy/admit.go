package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/account"
	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// Where the proxy has users of its own, it checks AUTH and HELLO … AUTH itself, in Redis's words, and Redis hears of neither: to
// it all clients are the proxy's user.
//
//	stranger ──AUTH, HELLO … AUTH──▶ admitted (client.account is who) ──RESET──▶ stranger
//
// A stranger's commands never get to Redis, and may be no larger than Redis allows before a login. Once it is admitted, no
// command costs more than without users.

const (
	wrongPass = "WRONGPASS invalid username-password pair or user is disabled."
	noAuth    = "NOAUTH Authentication required."
	noHello   = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO %sAUTH <user> <pass> " +
		"option can be used to authenticate the client and select the RESP protocol version at the same time"
	noPermission = "NOPERM this user has no permissions to run the 'fence.break' command: it is no admin among the users of fence-proxy"
)

// strangerKept bounds what is kept of replies to one who has not logged in, in bytes.
const strangerKept = 64 << 10

// stranger is the account of clients that have to log in first. Without users no client has one.
var stranger = new(account.Account)

// errRemoved says that a client's user is not among the proxy's any more.
var errRemoved = errors.New("the user is not among the proxy's any more")

// isStranger reports whether the client has to log in first.
func (c *client) isStranger() bool { return c.account.Load() == stranger }

// admit handles a command of a client that has not logged in.
func (c *client) admit(req resp.Request) error {
	cmd, _ := c.srv.commands.table.Lookup(req.Args)
	var reply []byte
	switch {
	case isWord(req.Args[0], "QUIT"):
		_ = c.local([]byte(okReply))
		return errQuit
	case cmd != nil && cmd.Name == "exec" && cmd.Fits(len(req.Args)):
		reply = resp.AppendError(nil, "EXECABORT Transaction discarded because of: "+noAuth)
	case cmd == nil || !cmd.Is(command.FlagNoAuth) && cmd.Fits(len(req.Args)):
		reply = resp.AppendError(nil, noAuth)
	case !cmd.Fits(len(req.Args)):
		reply = resp.AppendError(nil, "ERR wrong number of arguments for '"+cmd.Name+"' command")
	case cmd.Name == "auth":
		reply = c.auths(req.Args)
	case cmd.Name == "hello":
		h := c.readHello(req.Args)
		switch {
		case h.bad != "":
			reply = resp.AppendError(nil, h.bad)
		case h.name == nil:
			reply = resp.AppendError(nil, c.noHello())
		case !c.logIn(h.name, h.password):
			reply = resp.AppendError(nil, c.wrongPass())
		default:
			return c.handle(h.rest(req.Args))
		}
	case cmd.Name == "reset":
		reply = resp.AppendSimple(nil, "RESET")
	default:
		reply = resp.AppendError(nil, noAuth)
	}
	if err := c.local(reply); err != nil {
		return err
	}
	if c.out.kept() > strangerKept {
		return upstream.ErrTooMuch
	}
	return nil
}

// noHello is what Redis says to a HELLO of one who has not logged in.
func (c *client) noHello() string {
	proto := ""
	if c.srv.commands.since72() {
		proto = "<proto> "
	}
	return fmt.Sprintf(noHello, proto)
}

// wrongPass is what Redis says to a login that is no good.
func (c *client) wrongPass() string {
	if c.srv.commands.since62() {
		return wrongPass
	}
	return strings.TrimSuffix(wrongPass, " or user is disabled.")
}

// auths answers AUTH.
func (c *client) auths(args [][]byte) []byte {
	name, password := []byte("default"), args[len(args)-1]
	switch {
	case len(args) > 3:
		return resp.AppendError(nil, "ERR syntax error")
	case len(args) == 3:
		name = args[1]
	}
	if !c.logIn(name, password) {
		return resp.AppendError(nil, c.wrongPass())
	}
	return []byte(okReply)
}

// logIn checks a name and a password, and reports whether the client is that user from now on.
func (c *client) logIn(name, password []byte) bool {
	list := c.srv.accounts.Load()
	var a *account.Account
	if list != nil {
		a = list.Check(name, password)
	}
	if a == nil {
		c.srv.metrics.LoginRefused()
		if c.srv.refusedLogins.tell(c.nc.RemoteAddr(), time.Now()) { // what it gave for a name may be a password
			c.srv.log.Warn("login refused", "client", c.address(), "known", list.Find(string(name)) != nil)
		}
		return false
	}
	c.account.Store(a)
	if !c.srv.keeps(c) { // the users were revised meanwhile
		c.expel()
	}
	c.parser.Limit(c.srv.requests())
	c.acts()
	return true
}

// acts notes that the client is another user now.
func (c *client) acts() {
	c.regroup = true
	c.owner.Belongs(c.label())
	c.tellUser()
}

// logOut makes the client a stranger, as RESET does, which its upstream connection has heard of.
func (c *client) logOut() {
	c.account.Store(stranger)
	c.dropAside()
	c.leave()
	c.state.proved = !c.srv.unproved
	c.parser.Limit(c.srv.requestsOfStrangers())
	c.acts()
}

// logsIn handles an AUTH or HELLO of a client that has been admitted. done says that it was answered; else what Redis is to hear of it
// is in req.
func (c *client) logsIn(cmd *command.Command, req *resp.Request) (done bool, err error) {
	if !cmd.Fits(len(req.Args)) || cmd.Name != "auth" && cmd.Name != "hello" {
		return false, nil
	}
	h := c.readHello(req.Args)
	switch {
	case cmd.Name == "auth":
	case h.name == nil:
		return false, nil
	case h.bad != "":
		*req = h.rest(req.Args) // Redis says what is wrong with it
		return false, nil
	}
	if c.state.multi {
		if c.holding() {
			if begun, lost := c.tried(); !begun || lost != nil {
				return true, c.alone(*req, lost)
			}
		}
		c.state.refused = true
		return true, c.refuse(&deniedError{reason: cmd.Verb + " can't be in a transaction, since the proxy has users of its own"})
	}
	if err := c.link(); err != nil {
		return true, c.broken(err)
	}
	switch deaf, err := c.isDeaf(true); {
	case err != nil:
		return true, c.broken(err)
	case deaf && !c.state.monitors:
		*req = resp.Request{Args: [][]byte{req.Args[0], nil}}
		req.Raw = resp.AppendCommand(nil, req.Args...) // Redis says why not, and hears no password
		return false, nil
	}
	if cmd.Name == "auth" {
		return true, c.local(c.auths(req.Args))
	}
	if !c.logIn(h.name, h.password) {
		return true, c.local(resp.AppendError(nil, c.wrongPass()))
	}
	*req = h.rest(req.Args)
	return false, nil
}

// hello is what a HELLO says.
type hello struct {
	name, password []byte // of the last AUTH; nil without
	auths          []int  // where each AUTH begins
	bad            string // what Redis says of one that it can't read; "" if it can
}

// readHello takes a HELLO apart, as Redis does.
func (c *client) readHello(args [][]byte) (h hello) {
	if len(args) > 1 {
		switch version, err := strconv.ParseInt(string(args[1]), 10, 64); {
		case (err != nil || strconv.FormatInt(version, 10) != string(args[1])) && c.srv.commands.since62():
			h.bad = "ERR Protocol version is not an integer or out of range"
		case err != nil, version < 2, version > 3, strconv.FormatInt(version, 10) != string(args[1]):
			h.bad = "NOPROTO unsupported protocol version"
		}
	}
	for i := 2; i < len(args); i++ {
		switch left := len(args) - 1 - i; {
		case isWord(args[i], "AUTH") && left >= 2:
			h.name, h.password, h.auths = args[i+1], args[i+2], append(h.auths, i)
			i += 2
		case isWord(args[i], "SETNAME") && left >= 1:
			if i++; h.bad == "" && bytes.ContainsFunc(args[i], func(r rune) bool { return r < '!' || r > '~' }) {
				h.bad = "ERR Client names cannot contain spaces, newlines or special characters."
			}
		case h.bad == "":
			h.bad = "ERR Syntax error in HELLO option '" + string(args[i]) + "'"
		}
	}
	return h
}

// rest is the request without what it says of a login.
func (h *hello) rest(args [][]byte) resp.Request {
	kept := make([][]byte, 0, len(args))
	for i, a := range args {
		at := len(h.auths) > 0 && i >= h.auths[0] && i <= h.auths[0]+2
		if !at {
			kept = append(kept, a)
		} else if i == h.auths[0]+2 {
			h.auths = h.auths[1:]
		}
	}
	return resp.Request{Args: kept, Raw: resp.AppendCommand(nil, kept...)}
}

// isAccountsAdmin says whether the client may say what only admins may; asked is false if Redis has to be asked, since the
// proxy has no users of its own.
func (c *client) isAccountsAdmin() (admin, asked bool) {
	list, a := c.srv.accounts.Load(), c.account.Load()
	if a == nil {
		return false, false
	}
	now := list.Find(a.Name)
	return now != nil && now.Admin, true
}

// ReviseAccounts puts other users in the place of those that counted so far; nil is none. Clients of users that are gone are closed,
// as Redis closes them, and so are those that came before there were users, or before there were none.
func (s *Server) ReviseAccounts(list *account.List) {
	s.accounts.Store(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		if !s.keeps(c) {
			name := "" // of a client that came before there were users
			if a := c.account.Load(); a != nil {
				name = a.Name
			}
			s.log.Info("client closed: its user is not among the proxy's any more", "client", c.address(), "user", name)
			c.expel()
		}
	}
}

// keeps reports whether a client may stay.
func (s *Server) keeps(c *client) bool {
	list, a := s.accounts.Load(), c.account.Load()
	switch {
	case list == nil || a == nil:
		return list == nil && a == nil
	case a == stranger:
		return true
	}
	return list.Find(a.Name) != nil
}

// expel makes the client go once its present command is done.
func (c *client) expel() {
	c.expelled.Store(true)
	c.stop()
}
