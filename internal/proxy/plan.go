package proxy

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// part is one session's part in a guarded command.
type part struct {
	sequence *lock.Sequence
	keys     []uint64       // of the session, as hashes
	taken    bool           // the session was taken by this very command
	inside   bool           // it has its turn (turns.go)
	left     *lock.Sequence // in which it had its last turn
	turns    uint64         // … and how many there had been by then
	birth    int            // of its rule (rules.go)
	lone     bool           // it writes what its connection has not read, though the client may pool

	atomic  bool // of a transaction: what it writes of the session are atomic updates
	reading bool // it changes no value of the session, though it has to be carried out as a write

	unnamed []uint64 // of the keys it writes, those that its owner may have read by a pattern (patterns.go)
}

// plan is what a command means to the guard.
type plan struct {
	rules  *edition         // by which it was made
	parts  []part           // the sessions it touches, in the order in which they are locked
	aged   bool             // some of them may be of former rules
	before []*lock.Sequence // those in which the keys were, and are no more
	writes bool
	atomic bool
	reads  bool // besides: it is a write whose reply the client goes on from
	looks  bool // the client is among the readers of one of its rules

	reached []reach // what it reads by patterns
}

// hashSeed makes key and command hashes; they never leave the process.
var hashSeed = maphash.MakeSeed()

// plan decides what a command means. The error is a *deniedError.
func (c *client) plan(cmd *command.Command, args [][]byte) (plan, error) {
	p := plan{rules: c.srv.rules.now(), parts: c.parts[:0]}
	c.parts = p.parts
	if cmd == nil {
		return p, c.unknown(args)
	}
	if (cmd.Name == "publish" || cmd.Name == "spublish") && len(args) > 1 && isReserved(args[1]) {
		return p, reserved(args[1])
	}
	keys, complete := cmd.Keys(c.keys[:0], args)
	if c.keys = keys; cap(keys) > keepLen {
		c.keys = nil
	}
	reached, told, err := c.reaches(cmd, args)
	if err != nil {
		return p, err
	}
	p.reached = reached
	if !complete && !told && c.mentions(args) {
		asked, err := c.srv.commands.keys(args)
		switch {
		case err == nil:
			keys = asked
		case cmd.Derives():
			return p, &deniedError{reason: fmt.Sprintf("%s: the keys of this call can't be told, and it names a guarded prefix: %v", cmd.Name, err)}
		default: // it is malformed, or newer than this proxy: whatever may be a key counts as one
			keys = c.mentioned(keys[:0], args)
			c.keys = keys
		}
	}
	if err := reservedInScript(cmd, args); err != nil {
		return p, err
	}
	if err := c.undeclared(cmd, args); err != nil {
		return p, err
	}
	look, guarded, first := isLook(cmd, args), false, -1
	other := c.otherDB(cmd, args)
	for i, key := range keys {
		if key.Index >= len(args) {
			continue
		}
		name := args[key.Index]
		if isReserved(name) {
			return p, reserved(name)
		}
		writes := key.Access == command.Write && !look
		p.writes = p.writes || writes
		db := c.state.db
		if other >= 0 && i > 0 { // what COPY makes
			db = other
		}
		if c.place(&p, db, name, writes) {
			guarded = guarded || writes
		} else if first < 0 {
			first = i
		}
		if other >= 0 && cmd.Name == "move" {
			guarded = c.place(&p, other, name, writes) || guarded
		}
	}
	if name := c.lists(cmd, args); name != nil {
		c.place(&p, c.state.db, name, false)
	}
	if c.doing > 0 && len(p.parts) == 0 && first >= 0 { // then the first key's session is the one that is meant
		guarded = keys[first].Access == command.Write && !look
		key := args[keys[first].Index]
		c.session = c.srv.bare.AppendSession(c.session[:0], key)
		p.add(c.underGrant(c.srv.bare, c.area(c.srv.bare, key), c.session), key, 0)
	}
	c.parts = p.parts
	if len(p.parts) == 0 {
		return p, nil
	}
	if c.doing == 0 && (isTouch(cmd, args) || cmd.Name == "watch") {
		p.parts = nil // WATCH reads no value
		return p, nil
	}
	switch reading, atomic := isReading(cmd, args); {
	case p.writes && !guarded: // COPY from a guarded key to another: a read that must not be sent in vain
		p.read()
	case reading && atomic && p.looks:
		p.atomic = true
	case reading && atomic:
		p.read()
	case reading && !p.looks:
		p.reads = true
	default:
		p.atomic = isAtomic(cmd, args)
	}
	if blocks(cmd, args) && !c.state.multi && p.looksOn() {
		p.parts = nil // it takes whatever comes, and had better wait at Redis
		return p, nil
	}
	return p.unguardable(c.guardable(cmd, args, p))
}

// read makes p a read that has to be carried out as a write is: once, and only when it is granted.
func (p *plan) read() {
	p.reads, p.atomic = true, true
	for i := range p.parts {
		p.parts[i].reading = true
	}
}

// add notes a key of a sequence, once for each session; sessions are kept sorted. The part is p's, until the next call.
func (p *plan) add(s *lock.Sequence, key []byte, birth int) *part {
	hash := maphash.Bytes(hashSeed, key)
	at, found := p.find(s)
	if !found {
		at = p.insert(part{sequence: s, birth: birth, keys: []uint64{hash}})
	}
	q := &p.parts[at]
	if q.keys[len(q.keys)-1] != hash {
		q.keys = append(q.keys, hash)
	}
	return q
}

// find returns where a session is among the parts.
func (p *plan) find(s *lock.Sequence) (at int, found bool) {
	birth, known := p.rules.births[s.Rule]
	if p.aged || p.rules.births != nil && !known {
		at = slices.IndexFunc(p.parts, func(q part) bool { return q.sequence.Record.Is(s.Record) })
		return at, at >= 0
	}
	at = p.place(s, birth)
	return at, at < len(p.parts) && p.parts[at].sequence.Record.Is(s.Record)
}

// insert puts a session that is not there in its place, and returns it.
func (p *plan) insert(q part) (at int) {
	at = p.place(q.sequence, q.birth)
	p.parts = slices.Insert(p.parts, at, q)
	return at
}

// place is where a session is in the order of locking, or would be.
func (p *plan) place(s *lock.Sequence, birth int) int {
	at, _ := slices.BinarySearchFunc(p.parts, s, func(q part, s *lock.Sequence) int {
		return cmp.Or(cmp.Compare(q.birth, birth), strings.Compare(q.sequence.Record.Keys()[0], s.Record.Keys()[0]),
			cmp.Compare(q.sequence.Record.DB, s.Record.DB))
	})
	return at
}

// guardedBy returns the rule that guards a key, or only observes it; nil if none does.
func (c *client) guardedBy(key []byte) *rule.Rule {
	if r := c.srv.rules.Match(key); r.Guards() {
		return r
	}
	if c.doing == 0 && len(c.grants) > 0 && c.underGrant(c.srv.bare, c.area(c.srv.bare, key), key) != nil {
		return c.srv.bare
	}
	return nil
}

// granted returns the sequence of the grant under which the client does something with a guarded key; nil without one.
func (c *client) granted(key []byte) *lock.Sequence {
	if c.doing == 0 && len(c.grants) == 0 {
		return nil
	}
	r := c.guardedBy(key)
	if r == nil {
		return nil
	}
	c.session = r.AppendSession(c.session[:0], key)
	at := c.area(r, key)
	s := c.underGrant(r, at, c.session)
	if stands := grantsAt(at, r, c.session); s != nil && at.Spans && at != stands {
		c.extend(s, stands)
	}
	return s
}

// guardable refuses what can't be run under a fence.
func (c *client) guardable(cmd *command.Command, args [][]byte, p plan) error {
	where := p.parts[0].sequence.Record
	deny := func(why string) error {
		return &deniedError{reason: fmt.Sprintf("%v: %s %s", where, cmd.Name, why)}
	}
	switch {
	case c.state.multi && c.tx.passed:
		return deny(fmt.Sprintf("can't be guarded in a transaction of more than %d MiB, or behind a login, HELLO, a subscription, CLIENT REPLY or TRACKING", heldMost>>20))
	case c.doing > 0 && c.otherDB(cmd, args) >= 0:
		return deny("reaches into another database, for which the grant is not")
	case blocks(cmd, args) && !c.state.multi && blockers[cmd.Name].timeout == nil:
		return deny("blocks in a way that the proxy does not know: it can't be guarded")
	}
	return nil
}

// otherDB returns the database that a call writes to if it is not the connection's, else -1. One that is no number,
// Redis refuses.
func (c *client) otherDB(cmd *command.Command, args [][]byte) int {
	at := 0
	switch cmd.Name {
	case "move":
		at = 2
	case "copy":
		for i := 3; i+1 < len(args); i++ {
			if isWord(args[i], "DB") {
				i++
				at = i // the last one counts
			}
		}
	}
	if at == 0 || at >= len(args) {
		return -1
	}
	db, err := strconv.Atoi(string(args[at]))
	if err != nil || db == c.state.db {
		return -1
	}
	return max(db, -1)
}

// unknown judges a command that the upstream's table does not have: Redis may still know it, so
// it must not name a guarded key.
func (c *client) unknown(args [][]byte) error {
	for _, a := range args[1:] {
		if isReserved(a) {
			return reserved(a)
		}
	}
	if c.mentions(args) {
		return &deniedError{
			reason:  fmt.Sprintf("the command %q is not in the upstream's command table, and it names a guarded key", clip(args[0])),
			unknown: true,
		}
	}
	return nil
}

// mentioned appends the arguments that are guarded or reserved keys, if they are keys, as written.
func (c *client) mentioned(dst []command.Key, args [][]byte) []command.Key {
	for i := 1; i < len(args); i++ {
		if c.mentions(args[i-1 : i+1]) {
			dst = append(dst, command.Key{Index: i, Access: command.Write})
		}
	}
	return dst
}

// mentions reports whether an argument is a guarded or reserved key, if it is a key.
func (c *client) mentions(args [][]byte) bool {
	return slices.ContainsFunc(args[1:], func(a []byte) bool {
		return isReserved(a) || c.guardedBy(a).Enforces()
	})
}

func reserved(key []byte) error {
	return &deniedError{reason: fmt.Sprintf("the key %q is reserved for fence records", clip(key))}
}

// clip keeps names in messages short.
func clip(name []byte) []byte { return name[:min(len(name), 128)] }

// has reports whether an option is among args.
func has(args [][]byte, option string) bool {
	return slices.ContainsFunc(args, func(a []byte) bool { return isWord(a, option) })
}
