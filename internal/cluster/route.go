package cluster

import (
	"bytes"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/slot"
)

const noKeys = -1

// route is one command's way: what is it, and where does it go? Nothing is sent before flush.
func (f *front) route(r request) error {
	cmd, known := f.c.table.Lookup(r.args)
	if f.blocking() {
		if err := f.drained(); err != nil {
			return err
		}
	}
	misfits := known && !cmd.Fits(len(r.args))
	if misfits && f.tx != nil {
		return f.misfit(cmd)
	}
	if !known || misfits {
		cmd = &unknownCommand
	}
	if f.tx != nil {
		return f.inTransaction(cmd, &r)
	}
	if f.session.proto == 2 && f.heeds() {
		return f.toListener(cmd, &r)
	}
	switch {
	case cmd.Name == "multi":
		return f.begin(&r)
	case cmd.Name == "watch" || cmd.Name == "unwatch":
		return f.watch(cmd, &r)
	case cmd.Is(command.FlagPubSub) && subscribes(cmd.Name):
		return f.subscribe(cmd, &r)
	case cmd.Name == "reset":
		return f.reset(&r)
	case cmd.Name == "quit":
		f.say(okReply, true)
		return nil
	case cmd.Name == "client|caching":
		return f.cache(&r)
	}
	if text := f.refuses(cmd); text != nil {
		f.say(text, false)
		return nil
	}
	if what := about(cmd, r.args); what != "" {
		return f.introduced(cmd, what, &r)
	}
	if done, err := f.spread(cmd, &r); done || err != nil {
		return err
	}
	at := f.slotOf(cmd, r.args)
	e := entry{kind: passed, slot: int32(at), raw: r.raw, in: r.in}
	if r.inline {
		e.in = nil
	}
	if err := f.scripted(cmd, &r, &e); err != nil {
		return err
	}
	if e.blocks = blocks(cmd, r.args); e.blocks {
		e.raw, e.in = bytes.Clone(r.raw), nil // which may take long: what else is in the chunk need not wait for it
	}
	e.repeats = !e.blocks && repeats(cmd, r.args)
	return f.toSlot(cmd, e)
}

// unknownCommand stands for what the table does not have: a node says that there is none, or has learned it since.
var unknownCommand command.Command

var okReply = []byte("+OK\r\n")

// toSlot routes an entry to the node of its slot.
func (f *front) toSlot(cmd *command.Command, e entry) error {
	c, again := f.connOf(int(e.slot))
	if cmd.Name == "wait" || cmd.Name == "waitaof" {
		if f.written != nil && !f.written.lost.Load() {
			c, again = f.written, redirect{}
		}
	}
	if again.what == unsent && f.over() {
		return f.why()
	}
	e.c, e.again, e.under = c, again, f.relied(int(e.slot), c)
	if c != nil {
		if f.caching != nil {
			f.put(&entry{kind: dropped, slot: noKeys, c: c, raw: f.caching})
			f.caching = nil
		}
		f.writes(cmd, c)
	}
	f.put(&e)
	return nil
}

// writes notes where a command writes, or may: a WAIT to come is for that node.
func (f *front) writes(cmd *command.Command, c *conn) {
	switch cmd.Name {
	case "eval", "evalsha", "fcall":
		f.written = c
	default:
		if cmd.Is(command.FlagWrite) {
			f.written = c
		}
	}
}

// connOf returns the connection to the node of a slot, or of what has none. If there is none to be had, recover sees to it.
func (f *front) connOf(at int) (*conn, redirect) {
	if at == noKeys {
		c, err := f.atHome()
		if err != nil {
			return nil, unreached(f.home, err)
		}
		f.identify(c)
		return c, redirect{}
	}
	n := f.topology.of(at)
	if n == nil {
		return nil, redirect{what: down, line: "-CLUSTERDOWN Hash slot not served\r\n"}
	}
	c, err := f.at(n)
	if err != nil {
		return nil, unreached(n, err)
	}
	f.identify(c)
	return c, redirect{}
}

// slotOf is the slot of a command's first key, noKeys if it has none. Redis itself finds fault with keys of several slots.
func (f *front) slotOf(cmd *command.Command, args [][]byte) int {
	switch cmd.Name {
	case "spublish", "ssubscribe", "sunsubscribe": // whose channels have slots, but are no keys
		if len(args) > 1 {
			return slot.Of(args[1])
		}
		return noKeys
	}
	var room [16]command.Key
	keys, _ := cmd.Keys(room[:0], args)
	if len(keys) == 0 {
		return noKeys
	}
	return slot.Of(args[keys[0].Index])
}

// blocks reports whether a command may take its time. What comes behind it waits for it, as in Redis.
func blocks(cmd *command.Command, args [][]byte) bool {
	switch cmd.Name {
	case "xread", "xreadgroup":
		return hasWord(args, "BLOCK")
	case "wait", "waitaof":
		return true
	}
	return cmd.Is(command.FlagBlocking)
}

// blocking reports whether the last command is one that may take its time, and not answered.
func (f *front) blocking() bool {
	if n := len(f.batch); n > 0 {
		return f.batch[n-1].blocks
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queue.len > 0 && f.queue.last().blocks
}

// last is the entry that was queued last.
func (q *queue) last() *entry { return &q.ring[(q.head+q.len-1)&(len(q.ring)-1)] }

// refuses returns the error for what can't be had of a cluster that looks like one Redis.
func (f *front) refuses(cmd *command.Command) []byte {
	name := cmd.Name
	switch {
	case name == "readonly" || name == "readwrite" || name == "asking" || name == "cluster" || len(name) > 8 && name[:8] == "cluster|":
		return []byte("-ERR This instance has cluster support disabled\r\n")
	case name == "monitor" || name == "sync" || name == "psync" || name == "replconf" || name == "shutdown" || name == "failover":
		return resp.AppendError(nil, "ERR fence-proxy: "+cmd.Verb+" is for one node, and the upstream is a cluster of several: say it to a node")
	case name == "client|reply":
		return resp.AppendError(nil, "ERR fence-proxy: CLIENT REPLY can't be had in front of a cluster")
	}
	return nil
}

// cache takes CLIENT CACHING: what it says is about the next command, at whichever node that is.
func (f *front) cache(r *request) error {
	c, err := f.atHome()
	if err != nil {
		f.say([]byte(unreached(f.home, err).line), false)
		return nil
	}
	f.put(&entry{kind: passed, slot: noKeys, c: c, raw: r.raw, in: r.in})
	f.put(&entry{kind: dropped, slot: noKeys, c: c, raw: ping}) // there it is about this
	f.caching = bytes.Clone(r.raw)
	return nil
}

var ping = []byte("*1\r\n$4\r\nPING\r\n")

// killedLately reports whether a client has said CLIENT KILL within the last second: who is disconnected by a node then,
// may be who was meant.
func (c *Cluster) killedLately() bool {
	return time.Since(time.Unix(0, c.killed.Load())) < time.Second
}
