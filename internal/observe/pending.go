package observe

import (
	"bytes"
	"hash/maphash"
	"slices"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// Pending is a command under way. It hears its reply.
type Pending struct {
	conn   *Conn
	sent   time.Time
	steps  []step
	exec   bool
	blocks bool
	uses   []use
	most   int
	head   []byte // the start of the reply
}

// Begin starts the command, and reports false if it has to wait for its turn: then the caller sends all
// that it has kept back, and calls Wait.
func (p *Pending) Begin() bool {
	if p.blocks {
		return true // it may stay at Redis for long, and is carried out when it is answered
	}
	p.uses = make([]use, 0, len(p.steps))
	for i := range p.steps {
		s := &p.steps[i]
		at := slices.IndexFunc(p.uses, func(u use) bool { return u.hash == s.hash })
		if at < 0 {
			at = len(p.uses)
			p.uses = append(p.uses, use{conn: p.conn, hash: s.hash})
		}
		p.uses[at].writes = p.uses[at].writes || s.effect.writes()
	}
	p.conn.o.mu.Lock()
	defer p.conn.o.mu.Unlock()
	t, _ := p.conn.o.begin(p.uses)
	return t == nil
}

// Wait waits for the command's turn, for the longest time at most.
func (p *Pending) Wait() {
	p.conn.o.wait(p.uses)
	p.sent = time.Now()
}

// Lost says that there will be no reply.
func (p *Pending) Lost() {
	p.conn.o.mu.Lock()
	defer p.conn.o.mu.Unlock()
	p.conn.o.end(p.uses)
}

// Hear takes a part of the reply, done if it is the last.
func (p *Pending) Hear(part []byte, done bool) {
	if room := p.most - len(p.head); room > 0 {
		p.head = append(p.head, part[:min(room, len(part))]...)
	}
	if !done {
		return
	}
	o := p.conn.o
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.end(p.uses)
	if p.exec {
		p.executed(now)
		return
	}
	for i := range p.steps {
		p.do(&p.steps[i], p.head, now)
	}
}

// executed takes the reply of an EXEC.
func (p *Pending) executed(now time.Time) {
	_, null, pos, ok := resp.ArrayHeader(p.head)
	if !ok || null {
		return
	}
	at, reply := -1, []byte(nil)
	for i := range p.steps {
		s := &p.steps[i]
		for ; at < s.deed.at && ok; at++ {
			var f resp.Framer
			n, done, err := f.Scan(p.head[pos:])
			if ok = done && err == nil; ok {
				reply = p.head[pos : pos+n]
				pos += n
			}
		}
		if !ok {
			reply = []byte("+") // beyond what is kept: it has probably succeeded
		}
		p.do(s, reply, now)
	}
}

// do takes what a command has done to a key.
func (p *Pending) do(s *step, reply []byte, now time.Time) {
	if failed(reply) || s.text != nil && !bytes.Contains(reply, s.text) {
		return
	}
	o, c := p.conn.o, p.conn
	k := o.keys[s.hash]
	if k == nil {
		return // forgotten meanwhile
	}
	stats := s.stats.present()
	client := stats.client(c.group.client)
	if s.effect == reads {
		if s.deed.blocks && void(reply) {
			return
		}
		stats.reads++
		client.Reads++
		v := k.now
		if u := p.use(s.hash); u != nil && u.overtaken {
			v = u.seen
		}
		k.read(c, v, now, 1<<(maphash.String(o.seed, s.deed.name)%64))
		return
	}
	if !s.deed.changed(reply) {
		return
	}
	stats.writes++
	client.Writes++
	if s.effect == updates {
		p.update(k, stats)
		return
	}
	p.write(k, s, stats, client, now)
}

func (p *Pending) use(hash uint64) *use {
	for i := range p.uses {
		if p.uses[i].hash == hash {
			return &p.uses[i]
		}
	}
	return nil
}

// update takes an atomic update. Who had read the version before it, and makes it, knows it.
func (p *Pending) update(k *key, stats *stats) {
	stats.atomic++
	before := k.now
	k.change(p.conn, updates, nil, 0)
	w := k.owner(p.conn, false)
	if w == nil {
		return
	}
	for i := range w.reads {
		if w.reads[i].number == before.number {
			w.reads[i].version = k.now
		}
	}
	if w.wrote.number == before.number && w.goesOn(p.sent) {
		stats.follows++
		w.wrote.version = k.now
	}
}

// write takes a write that may go on from a read.
func (p *Pending) write(k *key, s *step, stats *stats, client *Activity, now time.Time) {
	c := p.conn
	b := k.basis(c, p.sent)
	if b.blind {
		stats.blind++
		k.change(c, s.effect, s.parts, 0)
		if w := k.owner(c, false); w != nil {
			w.wrote = read{}
		}
		return
	}
	if b.follows {
		stats.follows++
	} else {
		client.Sequences++
		n, waited := k.overlaps(span{b.at, now, c})
		stats.sequence(now.Sub(b.at), n, waited)
	}
	lost := k.lost(b.version, s.effect, s.parts)
	stale := b.number != k.now.number && (s.effect == replaces || lost > 0)
	if stale {
		stats.stale++
		client.Stale++
		client.Lost += lost
		stats.lost += lost
		if k.within(c, b.version) {
			stats.within += lost
		}
		if b.guess {
			stats.guessed += lost
		}
	} else {
		lost = 0
	}
	k.change(c, s.effect, s.parts, lost)
	w := k.owner(c, true)
	w.wrote = read{version: k.now, at: now}
	stats.pools = stats.pools || c.group.pools
}
