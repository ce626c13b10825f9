package observe

import (
	"encoding/binary"
	"hash/maphash"
	"net"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

// Observer keeps what was seen. Its methods, and those of its connections, may be called from any
// goroutine.
type Observer struct {
	seed    maphash.Seed
	began   time.Time
	longest time.Duration // a turn

	mu     sync.Mutex
	keys   map[uint64]*key
	newest *key
	oldest *key
	turns  map[uint64]*turn
	tree   tree
	groups map[Client]*group
	unsure int64 // commands whose order is not known
	script int64 // calls of scripts with keys
	unread int64 // calls whose keys can't all be told
	left   left
}

// left counts what did not fit into memory.
type left struct {
	Keys    int64 `json:"keys"`    // forgotten, so that reads of them were, too
	Clients int64 `json:"clients"` // not told apart
}

// New returns an observer that has seen nothing. longest is how long a command may wait for another
// client's on the same key.
func New(longest time.Duration) *Observer {
	o := &Observer{
		seed: maphash.MakeSeed(), began: time.Now(), longest: longest,
		keys: map[uint64]*key{}, turns: map[uint64]*turn{}, groups: map[Client]*group{},
	}
	return o
}

// Conn is one connection of a client. Its methods belong to one goroutine.
type Conn struct {
	o      *Observer
	group  *group
	queued []step // in a transaction
}

// Connect returns the connection of a client at an address.
func (o *Observer) Connect(address string) *Conn {
	c := &Conn{o: o}
	c.Identify(Client{Address: address})
	return c
}

// Identify says who the client is. The address may have a port, which does not count.
func (c *Conn) Identify(client Client) {
	if host, _, err := net.SplitHostPort(client.Address); err == nil {
		client.Address = host
	}
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	if c.group == nil || c.group.client != client {
		c.group = c.o.group(client)
	}
}

// step is what one command does to one key.
type step struct {
	hash   uint64
	stats  *stats
	effect effect
	parts  []uint64
	deed   deed
	text   []byte // the key, where several might be meant by a reply
}

// Send notes a call that is about to be sent. It returns nil if there is nothing to see in its reply;
// else the caller calls Begin before it sends.
func (c *Conn) Send(call *Call) *Pending {
	if call.Command == nil {
		return nil
	}
	switch call.Command.Name {
	case "flushall", "flushdb", "swapdb":
		c.o.forget()
		return nil
	}
	p := &Pending{conn: c, sent: time.Now(), most: maxHead}
	p.steps = c.steps(p.steps, call, 0)
	if len(p.steps) == 0 {
		return nil
	}
	p.blocks = call.Blocks
	return p
}

// Queue notes a call that is queued in a transaction: the at-th.
func (c *Conn) Queue(call *Call, at int) {
	if call.Command != nil && len(c.queued) < maxExec/16 {
		c.queued = c.steps(c.queued, call, at)
	}
}

// Discard forgets what was queued.
func (c *Conn) Discard() { c.queued = nil }

// Exec is Send for the EXEC of what was queued.
func (c *Conn) Exec() *Pending {
	if len(c.queued) == 0 {
		return nil
	}
	p := &Pending{conn: c, sent: time.Now(), most: maxExec, steps: c.queued, exec: true}
	c.queued = nil
	return p
}

// steps appends what a call does to its keys.
func (c *Conn) steps(dst []step, call *Call, at int) []step {
	writes := false
	for _, key := range call.Keys {
		writes = writes || key.Access == command.Write
	}
	o := c.o
	d := call.deed()
	d.at = at
	o.mu.Lock()
	defer o.mu.Unlock()
	if isScript(d.name) && len(call.Keys) > 0 {
		o.script++
	}
	var parts []uint64
	for _, key := range call.Keys {
		if key.Index >= len(call.Args) {
			continue
		}
		e := call.of(key.Access, writes)
		if e == nothing {
			continue
		}
		if e == changes && parts == nil {
			parts = call.parts(o.seed)
		}
		text := call.Args[key.Index]
		s := step{hash: o.hash(call.DB, text), effect: e, parts: parts, deed: d}
		if twin(dst, &s) {
			continue
		}
		k := o.key(s.hash, text)
		s.stats = k.stats
		if d.blocks && e == updates && len(call.Keys) > 1 {
			s.text = append([]byte(nil), text...)
		}
		k.stats.command(d.name)
		dst = append(dst, s)
	}
	return dst
}

// twin reports whether the same command has the same effect on the key already.
func twin(steps []step, s *step) bool {
	for i := len(steps) - 1; i >= 0 && steps[i].deed.at == s.deed.at; i-- {
		if steps[i].hash == s.hash && steps[i].effect == s.effect && steps[i].deed.name == s.deed.name {
			return true
		}
	}
	return false
}

// Unread counts a call whose keys can't all be told.
func (o *Observer) Unread() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unread++
}

func (o *Observer) hash(db int, key []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(o.seed)
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], uint64(db))
	_, _ = h.Write(number[:])
	_, _ = h.Write(key)
	return h.Sum64()
}

// key returns what is known of a key, the one used last from now on. Called with mu held.
func (o *Observer) key(hash uint64, text []byte) *key {
	k := o.keys[hash]
	switch {
	case k == nil:
		if len(o.keys) >= maxKeys {
			o.left.Keys++
			o.drop(o.oldest)
		}
		k = &key{hash: hash, stats: o.tree.find(text)}
		k.stats.keys++
		o.keys[hash] = k
	case o.newest == k:
		return k
	default:
		o.unlink(k)
	}
	k.stats = k.stats.present()
	k.older = o.newest
	if o.newest != nil {
		o.newest.newer = k
	}
	o.newest = k
	if o.oldest == nil {
		o.oldest = k
	}
	return k
}

func (o *Observer) unlink(k *key) {
	if k.newer != nil {
		k.newer.older = k.older
	} else {
		o.newest = k.older
	}
	if k.older != nil {
		k.older.newer = k.newer
	} else {
		o.oldest = k.newer
	}
	k.newer, k.older = nil, nil
}

func (o *Observer) drop(k *key) {
	o.unlink(k)
	delete(o.keys, k.hash)
}

// forget forgets all keys: they are gone.
func (o *Observer) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys, o.newest, o.oldest = map[uint64]*key{}, nil, nil
}
