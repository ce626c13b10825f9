package proxy

import (
	"slices"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// A client's transaction is held by the proxy from MULTI to EXEC, since only its EXEC tells whether a
// guarded key is in it, and no check can run once MULTI has been sent:
//
//	nothing guarded   MULTI, the commands and EXEC are passed as they came
//	something guarded they go as one block, with the checks before and the settlements behind them:
//	                  execute.go
//
// Whenever the client waits for answers before it has sent EXEC, Redis is asked to queue what is
// held (try), and the client hears in Redis's own words what is queued and what is refused. That
// happens on the client's own connection, where a DISCARD takes it back before the block; but on a
// second one (aside.go) when the client has keys under WATCH, which a DISCARD would drop.

// heldMost bounds what is held of one transaction, in bytes. What grows beyond it is passed, and can't
// be guarded.
const heldMost = 64 << 20

const (
	multi   = "*1\r\n$5\r\nMULTI\r\n"
	exec    = "*1\r\n$4\r\nEXEC\r\n"
	discard = "*1\r\n$7\r\nDISCARD\r\n"
)

// execAborted is what Redis answers to EXEC when a command was not queued.
const execAborted = "EXECABORT Transaction discarded because of previous errors."

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
		denied = &deniedError{tx.plan.sessions() + ": a transaction that is guarded can't have " + name + " in it"}
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
		c.state.refused = true
		return c.refuse(denied)
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
		return &deniedError{where.sessions() + ": a transaction that is guarded can't reach into another database by SELECT"}
	case len(c.tx.raw)+len(req.Raw) > heldMost:
		return &deniedError{where.sessions() + ": a transaction that is guarded can't have more than " + strconv.Itoa(heldMost>>20) + " MiB"}
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
	for _, q := range p.parts {
		keys, writes := slices.Clone(q.keys), p.writes && !q.reading
		tx.touches = append(tx.touches, touch{q.sequence, index, writes, p.reads || !p.writes, keys, commandHash(req.Raw)})
		tx.plan.touch(q.sequence, q.birth, writes, p.atomic, keys)
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
	case "multi", "watch": // an error that does not abort the transaction
		return c.heardAlone(req.Raw)
	}
	c.closeTry()
	c.state.endMulti()
	return c.pass(cmd, req)
}

// try asks Redis to queue what is held and not yet answered.
func (c *client) try() error {
	tx := &c.tx
	switch {
	case !c.holding() || tx.begun && tx.heard == tx.count:
		return nil
	case c.state.watching:
		return c.tryAside()
	}
	if err := c.link(); err != nil {
		return c.broken(err)
	}
	if !tx.open {
		c.unwatch()
		c.rearm()
		x, err := c.sync(tx.multi, !tx.begun)
		switch {
		case err != nil:
			_ = c.refuse(err)
			return err
		case !tx.begun && x.StreamType != '+':
			return c.notBegun()
		}
		tx.open, tx.begun = true, true
		tx.errors = c.up.Errors()
	}
	c.up.Pass(tx.raw[tx.tried:], tx.count-tx.heard)
	tx.heard, tx.tried = tx.count, len(tx.raw)
	return nil
}

// tried is try, and reports whether the transaction still stands: Redis may have refused MULTI.
func (c *client) tried() (begun bool, err error) {
	err = c.try()
	return c.state.multi, err
}

// alone carries out a command that turns out not to be in a transaction.
func (c *client) alone(req resp.Request, err error) error {
	if err != nil {
		return err
	}
	return c.handle(req)
}

// tryAside is try for a client that has keys under WATCH.
func (c *client) tryAside() error {
	tx := &c.tx
	up, err := c.beside()
	if err != nil {
		return c.broken(err)
	}
	n := tx.count - tx.heard
	c.send = c.send[:0]
	if !tx.open {
		c.send = append(c.send, tx.multi...)
		n++
	}
	c.send = append(c.send, tx.raw[tx.tried:]...)
	x := c.exchange
	x.Reset(n, -1, false, nil)
	if err := c.roundTripOn(up, x, c.send); err != nil {
		_ = c.refuse(err)
		return err
	}
	for i := range n {
		if i > 0 || tx.open || !tx.begun {
			if err := c.local(x.Frame(i)); err != nil {
				return err
			}
		}
		if !isError(x.Frame(i)) {
			continue
		}
		if i == 0 && !tx.open && !tx.begun {
			c.dropAside()
			return c.notBegun()
		}
		tx.failed = true
	}
	tx.open, tx.begun, tx.heard, tx.tried = true, true, tx.count, len(tx.raw)
	return nil
}

// heardAlone passes a command that Redis answers at once, on the connection for tries.
func (c *client) heardAlone(raw []byte) error {
	if !c.state.watching {
		_, err := c.sync(raw, true)
		return err
	}
	up, err := c.beside()
	if err != nil {
		return c.broken(err)
	}
	c.exchange.Reset(1, -1, false, nil)
	if err := c.roundTripOn(up, c.exchange, raw); err != nil {
		return err
	}
	return c.local(c.exchange.Frame(0))
}

// notBegun goes on after Redis has refused MULTI: what was held behind it are commands by themselves.
func (c *client) notBegun() error {
	raw, watching := c.tx.raw, c.state.watching
	c.tx = transaction{}
	c.state.endMulti()
	c.state.watching = watching
	parser := resp.NewRequestParser(resp.Limits{})
	for len(raw) > 0 {
		req, n, err := parser.Next(raw)
		if err != nil {
			return err
		}
		raw = raw[n:]
		if err := c.handle(req); err != nil {
			return err
		}
	}
	return nil
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

// closeTry takes back what Redis has queued for a try.
func (c *client) closeTry() {
	if !c.tx.open {
		return
	}
	c.tx.open = false
	if !c.state.watching {
		c.up.Drop([]byte(discard), 1)
		return
	}
	if up, err := c.beside(); err == nil {
		up.Drop([]byte(discard), 1)
		_ = up.Flush()
	}
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

// exec ends a transaction by EXEC.
func (c *client) exec(req resp.Request) error {
	tx := &c.tx
	err := c.replan()
	if err == nil && !tx.guarded() && !c.state.refused && !tx.failed {
		if err := c.passOn(); err != nil {
			return err
		}
		return c.passExec(req)
	}
	if c.state.refused {
		if begun, err := c.tried(); !begun || err != nil {
			return c.alone(req, err)
		}
	}
	covered := c.covered()
	if err == nil {
		err = c.execute()
	}
	if err != nil && !fatal(err) {
		begun, lost := c.tried() // what was not answered comes first
		if !begun || lost != nil {
			return c.alone(req, lost)
		}
	}
	c.closeTry()
	if c.state.watching && !tx.spent {
		c.up.Drop([]byte(unwatch), 1)
	}
	c.state.endMulti()
	if cap(c.send) > 4*sharedMost {
		c.send = nil
	}
	if says(covered, err) {
		return c.local(resp.AppendNullArray(nil, c.state.proto == 3))
	}
	return c.answerError(err)
}

// execute carries a guarded transaction out, unless one of its commands was refused.
func (c *client) execute() error {
	tx := &c.tx
	failed, err := c.notAllQueued()
	if err == nil && failed {
		err = c.try() // what was not answered comes first
	}
	switch {
	case err != nil:
		return err
	case failed || c.state.refused:
		return c.abort()
	}
	run := c.read
	if tx.plan.writes {
		run = c.write
	}
	return c.guarded(tx.plan, body{name: "exec", raw: tx.raw, count: tx.count, tx: tx, lists: len(c.state.listings) > 0}, run)
}

// unfit is a command that Redis does not queue, whatever its state.
const unfit = "*1\r\n$3\r\nGET\r\n"

// abort answers EXEC when one of the commands was refused: in Redis's words where it is asked to queue, and a
// command that it surely refuses keeps it from carrying out the rest.
func (c *client) abort() error {
	if !c.tx.open {
		return c.local(resp.AppendError(nil, execAborted))
	}
	up := c.up
	if c.state.watching {
		var err error
		if up, err = c.beside(); err != nil {
			return err
		}
	}
	c.exchange.Reset(2, -1, false, nil)
	if err := c.roundTripOn(up, c.exchange, []byte(unfit+exec)); err != nil {
		return err
	}
	c.tx.open = false
	return c.local(c.exchange.Frame(1))
}

// changed is what EXEC answers when Redis refuses in the block what it had queued for the client before; nil if it
// does not. first is the index of the first command's reply.
func (b body) changed(x *upstream.Exchange, first int) []byte {
	for i := first; b.tx != nil && i < x.From; i++ {
		if f := x.Frame(i); isError(f) {
			return resp.AppendError(nil, "EXECABORT Transaction discarded because of: "+string(f[1:len(f)-2]))
		}
	}
	return nil
}

// notAllQueued reports whether Redis has refused to queue a command.
func (c *client) notAllQueued() (bool, error) {
	tx := &c.tx
	if !tx.open || c.state.watching {
		return tx.failed, nil
	}
	if c.up.Outstanding() {
		if _, err := c.sync([]byte(discard), false); err != nil {
			return false, err
		}
		tx.open = false
	}
	return c.up.Errors() != tx.errors, nil
}
