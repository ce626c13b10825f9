package cluster

import (
	"bytes"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// A transaction is carried out at one node, that of its first command with keys, or where a WATCH stands. What comes before that
// is held. If the client waits for an answer meanwhile, it is told what Redis would say in all likelihood; a client that sends
// its transaction in one piece gets the node's own words throughout.

// transaction is what the client has begun with MULTI.
type transaction struct {
	c        *conn // nil: not known yet
	slot     int   // of its keys; noKeys until there are some
	watched  bool  // a WATCH stands: EXEC may answer nil
	watches  []int // slots of what is watched
	watching *watching
	aborted  bool // a command was refused here
	changes  bool // it does, or may
	held     []heldCommand
	told     int // so many of held are answered

	// To be sent again, if there is no WATCH.
	sent      []heldCommand
	size      int
	forgotten bool

	redirect redirect // under front.mu: what a node has said when a command was queued
}

// heldCommand is a request that is kept.
type heldCommand struct {
	raw []byte
	in  *chunk
}

func (h heldCommand) release() {
	if h.in != nil {
		h.in.release()
	}
}

func hold(r *request) heldCommand {
	if r.in == nil || r.inline {
		return heldCommand{raw: bytes.Clone(r.raw)}
	}
	r.in.use()
	return heldCommand{r.raw, r.in}
}

var (
	multiRequest   = resp.AppendCommandStrings(nil, "MULTI")
	discardRequest = resp.AppendCommandStrings(nil, "DISCARD")
	crossSlot      = []byte("-CROSSSLOT Keys in request don't hash to the same slot\r\n")
	execAbort      = []byte("-EXECABORT Transaction discarded because of previous errors.\r\n")
	nestedMulti    = []byte("-ERR MULTI calls can not be nested\r\n")
	watchInside    = []byte("-ERR WATCH inside MULTI is not allowed\r\n")
)

// begin takes MULTI.
func (f *front) begin(r *request) error {
	tx := &transaction{slot: noKeys, held: []heldCommand{hold(r)}}
	f.setTransaction(tx)
	tx.watching = f.watching
	if f.watched != nil {
		tx.watched, tx.watches = true, f.watchedSlots
		f.place(tx, f.watched)
	}
	return nil
}

func (f *front) setTransaction(tx *transaction) {
	f.mu.Lock()
	f.tx = tx
	f.mu.Unlock()
}

// inTransaction takes what comes behind MULTI.
func (f *front) inTransaction(cmd *command.Command, r *request) error {
	tx := f.tx
	switch name := cmd.Name; {
	case name == "exec":
		return f.execute(r)
	case name == "discard":
		return f.discard(r)
	case name == "reset":
		return f.reset(r)
	case name == "quit":
		if err := f.tell(); err != nil {
			return err
		}
		f.say(okReply, true)
		return nil
	case tx.c == nil && name == "multi":
		return f.answerInside(nestedMulti)
	case tx.c == nil && name == "watch":
		return f.answerInside(watchInside)
	case f.onePlace(cmd):
		tx.aborted = true
		return f.answerInside(resp.AppendError(nil, "ERR fence-proxy: "+cmd.Verb+" inside MULTI can't be had in front of a cluster: it is for all nodes, or says something of the client to all of them"))
	}
	if cmd == &unknownCommand && tx.c == nil { // it won't be carried out, and a node says why
		if c, err := f.atHome(); err == nil {
			f.place(tx, c)
		}
	}
	tx.changes = tx.changes || !repeats(cmd, r.args)
	at := f.slotOf(cmd, r.args)
	switch {
	case at == noKeys && tx.c == nil:
		tx.held = append(tx.held, hold(r))
		return nil
	case at == noKeys:
	case tx.watched && f.topology.of(at) != tx.c.n && !slices.Contains(tx.watches, at):
		tx.aborted = true
		return f.answerInside(crossSlot)
	case tx.slot == noKeys:
		tx.slot = at
	case tx.slot != at:
		tx.aborted = true
		return f.answerInside(crossSlot)
	}
	if tx.c == nil {
		c, again := f.connOf(at)
		if c == nil {
			return f.unplaced(again, r)
		}
		f.place(tx, c)
	}
	e := entry{kind: queued, slot: int32(tx.slot), c: tx.c, raw: r.raw, in: r.in, tx: tx}
	if r.inline {
		e.in = nil
	}
	if err := f.scripted(cmd, r, &e); err != nil {
		return err
	}
	e.scripted = false // what it answers is in EXEC's reply
	f.keep(tx, r)
	f.put(&e)
	f.writes(cmd, tx.c)
	return nil
}

// misfit refuses a command of a transaction whose arguments are too many or too few. EXEC ends it all the same.
func (f *front) misfit(cmd *command.Command) error {
	tx, why := f.tx, "wrong number of arguments for '"+cmd.Name+"' command"
	if tx.aborted = true; cmd.Name != "exec" {
		return f.answerInside(resp.AppendError(nil, "ERR "+why))
	}
	f.used()
	return f.aborted(tx, resp.AppendError(nil, "EXECABORT Transaction discarded because of: "+why))
}

// onePlace reports whether a command is not one that a single node can carry out within a transaction.
func (f *front) onePlace(cmd *command.Command) bool {
	_, split := splits[cmd.Name]
	return !split && spreads(cmd) != nil || cmd.Name == "scan" || cmd.Is(command.FlagPubSub) && subscribes(cmd.Name) ||
		about(cmd, nil) != "" || cmd.Name == "client|setinfo" || f.refuses(cmd) != nil
}

// answerInside answers a command of a transaction here, behind what is held.
func (f *front) answerInside(text []byte) error {
	if err := f.tell(); err != nil {
		return err
	}
	f.say(text, false)
	return nil
}

// place sends what is held to a node, which is the transaction's from now on.
func (f *front) place(tx *transaction, c *conn) {
	f.mu.Lock()
	tx.c = c
	f.mu.Unlock()
	for i, h := range tx.held {
		e := entry{kind: queued, slot: noKeys, c: c, raw: h.raw, in: h.in, tx: tx}
		switch {
		case i < tx.told:
			e.kind = dropped
		case i == 0:
			e.kind, e.tx = passed, nil
		}
		f.keep(tx, &request{raw: h.raw, in: h.in})
		f.put(&e)
		h.release()
	}
	tx.held, tx.told = nil, 0
}

// unplaced waits for a node that can't be reached, and goes on with the transaction there. If there is none, it is aborted.
func (f *front) unplaced(again redirect, r *request) error {
	tx := f.tx
	if again.what == unsent && f.over() {
		return f.why()
	}
	if err := f.flush(); err != nil {
		return err
	}
	for try := (trials{count: 1}); ; try.count++ {
		since := f.c.down.since()
		if again.what == unsent {
			since = f.c.node(again.addr).down.since()
		}
		if again.last || time.Since(since) > Patience && try.count > 1 {
			tx.aborted = true
			return f.answerInside([]byte(again.line))
		}
		if err := f.await(try.pause(again.what), func() bool { return false }); err != nil {
			return err
		}
		f.c.refresh()
		if err := f.tidy(); err != nil {
			return err
		}
		var c *conn
		if c, again = f.connOf(tx.slot); c != nil {
			f.c.down.over()
			f.place(tx, c)
			return f.queueHere(r)
		}
	}
}

func (f *front) queueHere(r *request) error {
	f.keep(f.tx, r)
	f.put(&entry{kind: queued, slot: int32(f.tx.slot), c: f.tx.c, raw: r.raw, in: r.in, tx: f.tx})
	return nil
}

// keep keeps a command of a transaction to be sent again.
func (f *front) keep(tx *transaction, r *request) {
	if tx.watched || tx.forgotten {
		return
	}
	if tx.size += len(r.raw); tx.size > keptMost {
		tx.forget()
		return
	}
	tx.sent = append(tx.sent, hold(r))
}

func (tx *transaction) forget() {
	for _, h := range tx.sent {
		h.release()
	}
	tx.sent, tx.forgotten = nil, true
}

// tell answers what is held, since the client may wait for that.
func (f *front) tell() error {
	tx := f.tx
	if tx == nil || tx.c != nil {
		return nil
	}
	for ; tx.told < len(tx.held); tx.told++ {
		if tx.told > 0 {
			f.say(queuedReply, false)
			continue
		}
		c, err := f.atHome()
		if err != nil {
			f.say(okReply, false)
			continue
		}
		// Whether the client may use MULTI, Redis says.
		f.put(&entry{kind: passed, slot: noKeys, c: c, raw: multiRequest})
		f.put(&entry{kind: dropped, slot: noKeys, c: c, raw: discardRequest})
	}
	return nil
}

// execute takes EXEC.
func (f *front) execute(r *request) error {
	tx := f.tx
	if tx.c == nil && !tx.aborted {
		c, err := f.atHome()
		if err != nil {
			tx.aborted = true
		} else {
			f.place(tx, c)
		}
	}
	if tx.watching != nil && f.c.unsettled() && !tx.aborted {
		if err := f.drained(); err != nil {
			return err
		}
	}
	f.used()
	switch {
	case tx.aborted:
		return f.aborted(tx, execAbort)
	case f.fails(tx.watching):
		return f.aborted(tx, f.noTransaction())
	}
	f.put(&entry{kind: executed, slot: int32(max(tx.slot, 0)), c: tx.c, raw: bytes.Clone(r.raw), tx: tx, repeats: !tx.changes})
	return nil
}

// used ends a transaction, and the WATCH before it.
func (f *front) used() {
	f.setTransaction(nil)
	f.unwatch()
}

// discard takes DISCARD.
func (f *front) discard(r *request) error {
	tx := f.tx
	if tx.c == nil && !tx.aborted {
		if c, err := f.atHome(); err == nil {
			f.place(tx, c)
		}
	}
	f.used()
	if tx.c == nil {
		return f.aborted(tx, okReply)
	}
	f.put(&entry{kind: passed, slot: noKeys, c: tx.c, raw: r.raw, in: r.in})
	tx.forget()
	return nil
}

// aborted ends a transaction with an answer of the front's own.
func (f *front) aborted(tx *transaction, text []byte) error {
	for i, h := range tx.held {
		if i >= tx.told {
			f.say(map[bool][]byte{true: okReply, false: queuedReply}[i == 0], false)
		}
		h.release()
	}
	tx.held = nil
	if tx.c != nil {
		f.put(&entry{kind: dropped, slot: noKeys, c: tx.c, raw: discardRequest})
	}
	tx.forget()
	f.say(text, false)
	return nil
}

// abandon ends a transaction without a word.
func (f *front) abandon() {
	tx := f.tx
	f.used()
	for _, h := range tx.held {
		h.release()
	}
	tx.held = nil
	tx.forget()
}

// watch takes WATCH and UNWATCH.
func (f *front) watch(cmd *command.Command, r *request) error {
	if cmd.Name == "unwatch" {
		c := f.watched
		f.unwatch()
		if c == nil {
			return f.toSlot(cmd, entry{kind: passed, slot: noKeys, raw: r.raw, in: r.in})
		}
		f.put(&entry{kind: passed, slot: noKeys, c: c, raw: r.raw, in: r.in})
		return nil
	}
	at := f.slotOf(cmd, r.args)
	c, again := f.connOf(at)
	if f.watched != nil && c != f.watched {
		f.say(crossSlot, false)
		return nil
	}
	if at != noKeys {
		if f.watching == nil {
			f.watching = new(watching)
		}
		if !slices.Contains(f.watchedSlots, at) {
			f.watchedSlots = append(f.watchedSlots, at)
		}
		f.mu.Lock()
		f.watched = c
		f.watching.count++
		f.watching.failed = f.watching.failed || c == nil
		f.mu.Unlock()
	}
	f.put(&entry{kind: passed, slot: int32(at), c: c, raw: r.raw, in: r.in, again: again, watches: at != noKeys, under: f.watching})
	return nil
}
