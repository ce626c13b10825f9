package proxy

import (
	"slices"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// A client's transaction is held by the proxy from MULTI to EXEC, since only its EXEC tells whether a
// guarded key is in it, and no check can run once MULTI has been sent:
//
//	nothing guarded   MULTI, the commands and EXEC are passed as they came
//	something guarded they go as one block, with the checks before and the settlements behind them:
//	                  execute.go
//
// Until then the client may want answers: try.go.

// heldMost bounds what is held of one transaction, in bytes. What grows beyond it is passed, and can't
// be guarded.
const heldMost = 64 << 20

const (
	multi   = "*1\r\n$5\r\nMULTI\r\n"
	exec    = "*1\r\n$4\r\nEXEC\r\n"
	discard = "*1\r\n$7\r\nDISCARD\r\n"
)

// transaction is what a client has sent since MULTI.
type transaction struct {
	passed bool   // it is not held, or not any more: commands are passed as they come
	multi  []byte // MULTI as it came
	raw    []byte // the commands as they came
	count  int

	begun bool // MULTI was answered
	heard int  // how many of the commands were answered, or will be before anything behind them
	tried int  // how many bytes of raw these are
	open  bool // MULTI stands on the connection for tries
	first int  // where the reply to the first command is in the block that was sent last
	spent bool // an EXEC has taken the client's WATCH away

	errors int64 // of the client's own connection when MULTI was sent there
	failed bool  // Redis has refused to queue a command on the connection aside

	plan    plan // what the guarded commands mean together
	touches []touch
}

// touch is one guarded command's part in one session.
type touch struct {
	sequence *lock.Sequence
	index    int // of the command
	writes   bool
	reads    bool
	keys     []uint64
	command  uint64 // its hash
}

// hold begins to hold a transaction. It reports false if there is nothing to guard.
func (c *client) hold(req resp.Request) bool {
	if c.srv.rules.now().empty() && len(c.grants) == 0 || c.state.replica || c.silent {
		return false
	}
	if _, err := c.prove(body{}); err != nil {
		c.srv.log.Debug("transaction not to be guarded", "client", c.address(), "error", err)
	}
	raw := c.tx.raw[:0]
	if cap(raw) > sharedMost {
		raw = nil
	}
	c.tx = transaction{multi: append(c.tx.multi[:0], req.Raw...), raw: raw, plan: plan{rules: c.srv.rules.now()}}
	c.state.multi = true
	return true
}

// holding reports whether the client's commands are held.
func (c *client) holding() bool { return c.state.multi && !c.tx.passed }

// enqueue takes a command between MULTI and EXEC.
func (c *client) enqueue(cmd *command.Command, p plan, req resp.Request, denied error) error {
	name := ""
	if cmd != nil && cmd.Fits(len(req.Args)) {
		name = cmd.Name
	}
	if _, ok := sticky[name]; ok || cmd == nil {
		c.state.alone = true
	}
	tx, selected := &c.tx, c.state.selected
	switch name {
	case "":
		if cmd != nil && cmd.Name == "exec" {
			return c.discard(req) // EXEC with an argument
		}
	case "exec":
		return c.exec(req)
	case "discard":
		return c.discard(req)
	case "multi", "watch", "reset", "quit":
		if denied == nil {
			return c.notQueued(cmd, req)
		}
	case "client|setname", "client|setinfo", "client|id":
		c.state.known = true // and can't be said again
	case "select":
		if db := database(req.Args); db >= 0 {
			selected = db
		}
	}
	if unheld(name) {
		if tx.plan.looksOn() {
			return c.passUnobserved(cmd, req)
		}
		denied = &deniedError{reason: tx.plan.sessions() + ": a transaction that is guarded can't have " + name + " in it"}
	}
	if denied == nil && (tx.guarded() || len(p.parts) > 0) {
		denied = c.fits(p, req, selected)
		if denied != nil && tx.plan.looksOn() && p.looksOn() {
			return c.passUnobserved(cmd, req)
		}
	}
	if denied != nil {
		if begun, err := c.tried(); !begun || err != nil {
			return c.alone(req, err)
		}
		return c.deny(req, denied)
	}
	if name == "select" {
		c.state.selects(database(req.Args), c.state.queued)
	}
	c.state.queue(name)
	if len(tx.raw)+len(req.Raw) > heldMost {
		if err := c.passOn(); err != nil {
			return err
		}
		c.up.Pass(req.Raw, 1)
		return nil
	}
	tx.add(p, cmd, req)
	return nil
}

// unheld reports whether a command in a transaction changes what the proxy must know of the
// connection: it is passed as it comes, and what was held before it.
func unheld(name string) bool {
	switch name {
	case "auth", "hello", "monitor", "sync", "psync", "client|tracking", "client|reply", "client|kill":
		return true
	}
	return changesSubscriptions(name)
}

// fits refuses what can't be in a guarded transaction.
func (c *client) fits(p plan, req resp.Request, selected int) error {
	where := p
	if c.tx.guarded() {
		where = c.tx.plan
	}
	switch {
	case selected >= 0 && selected != c.state.db:
		return &deniedError{reason: where.sessions() + ": a transaction that is guarded can't reach into another database by SELECT"}
	case len(c.tx.raw)+len(req.Raw) > heldMost:
		return &deniedError{reason: where.sessions() + ": a transaction that is guarded can't have more than " + strconv.Itoa(heldMost>>20) + " MiB"}
	}
	return nil
}

// add holds a command.
func (tx *transaction) add(p plan, cmd *command.Command, req resp.Request) {
	tx.note(p, cmd, req, tx.count)
	tx.raw = append(tx.raw, req.Raw...)
	tx.count++
}

// note takes what a command means into the plan. With one that may change anything, guarded or not, the transaction is
// carried out as a write is: once, and only when it is granted.
func (tx *transaction) note(p plan, cmd *command.Command, req resp.Request, index int) {
	tx.plan.aged = tx.plan.aged || p.aged
	tx.plan.reached = append(tx.plan.reached, p.reached...)
	for _, q := range p.parts {
		keys, writes := slices.Clone(q.keys), p.writes && !q.reading
		tx.touches = append(tx.touches, touch{q.sequence, index, writes, p.reads || !p.writes, keys, commandHash(req.Raw)})
		tx.plan.touch(q.sequence, q.birth, writes, p.atomic, keys)
		if !p.atomic {
			tx.plan.leaveUnnamed(q)
		}
	}
	tx.plan.writes = tx.plan.writes || p.writes || cmd == nil || !cmd.Is(command.FlagReadOnly)
}

// replan plans a transaction by the rules that count at its EXEC. The error is a *deniedError.
func (c *client) replan() error {
	tx, rules := &c.tx, c.srv.rules.now()
	if tx.plan.rules == rules {
		return nil
	}
	tx.plan, tx.touches = plan{rules: rules}, nil
	parser := resp.NewRequestParser(resp.Limits{})
	for index, raw := 0, tx.raw; len(raw) > 0; index++ {
		req, n, err := parser.Next(raw)
		if err != nil {
			return err
		}
		raw = raw[n:]
		cmd, _ := c.srv.commands.table.Lookup(req.Args)
		p, err := c.plan(cmd, req.Args)
		if err != nil {
			return err
		}
		tx.note(p, cmd, req, index)
	}
	if tx.guarded() {
		return c.fits(tx.plan, resp.Request{}, c.state.selected)
	}
	return nil
}

// touch takes a command's part in a session into the plan of its transaction.
func (p *plan) touch(s *lock.Sequence, birth int, writes, atomic bool, keys []uint64) {
	at, found := p.find(s)
	if !found {
		at = p.insert(part{sequence: s, birth: birth, reading: true, atomic: true})
	}
	if !writes {
		return
	}
	q := &p.parts[at]
	q.reading, q.atomic = false, q.atomic && atomic
	for _, key := range keys {
		if !slices.Contains(q.keys, key) {
			q.keys = append(q.keys, key)
		}
	}
}

// leaveUnnamed takes over which of a command's keys may have been read by patterns.
func (p *plan) leaveUnnamed(q part) {
	if at, found := p.find(q.sequence); found {
		p.parts[at].unnamed = append(p.parts[at].unnamed, q.unnamed...)
	}
}

// guarded reports whether a guarded command is in the transaction.
func (tx *transaction) guarded() bool { return len(tx.plan.parts) > 0 }

// unwritten yields what the transaction reads and does not write afterwards.
func (tx *transaction) unwritten(yield func(*touch) bool) {
	written := map[uint64]struct{}{}
	for _, t := range slices.Backward(tx.touches) {
		read := t.reads
		for _, key := range t.keys {
			if _, ok := written[key]; ok {
				read = false
			}
			if t.writes {
				written[key] = struct{}{}
			}
		}
		if read && !yield(&t) {
			return
		}
	}
}

// notQueued is for the commands that Redis carries out at once inside MULTI.
func (c *client) notQueued(cmd *command.Command, req resp.Request) error {
	if begun, err := c.tried(); !begun || err != nil {
		return c.alone(req, err)
	}
	switch cmd.Name {
	case "multi", "watch": // an error
		c.tx.failed = c.tx.failed || c.srv.nested.aborts(c.srv.commands)
		return c.heardAlone(req.Raw)
	}
	c.closeTry()
	c.state.endMulti()
	return c.pass(cmd, req)
}

// passOn passes what is held, and lets the rest of the transaction pass as it comes.
func (c *client) passOn() error {
	tx := &c.tx
	if err := c.link(); err != nil {
		return c.broken(err)
	}
	switch {
	case tx.open && !c.state.watching:
	case tx.begun:
		c.closeTry()
		c.rearm()
		c.up.Drop(slices.Concat(tx.multi, tx.raw[:tx.tried]), 1+tx.heard)
	default:
		c.unwatch()
		c.rearm()
		c.up.Pass(tx.multi, 1)
	}
	c.up.Pass(tx.raw[tx.tried:], tx.count-tx.heard)
	*tx = transaction{passed: true}
	return nil
}

// discard ends a transaction by DISCARD.
func (c *client) discard(req resp.Request) error {
	if begun, err := c.tried(); !begun || err != nil {
		return c.alone(req, err)
	}
	if c.state.watching {
		c.up.Drop([]byte(unwatch), 1)
	}
	err := c.heardAlone(req.Raw)
	c.state.endMulti()
	return err
}
