package proxy

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// SORT reads keys that it makes from values by patterns (BY, GET). Which they are nobody knows before, so it takes no
// sessions for them. Instead the patterns are remembered, for max_hold: who then writes such a key without having read
// it by itself, under a fence, is refused once. What a read by itself stands on is at least as old as what is written
// after it, so from there on the fence tells.

const (
	// maxPatterns bounds the patterns that are remembered of an owner. With more of them, any key may have been read.
	maxPatterns = 64
	// maxTold bounds the keys of which it is remembered that their write was refused. With more of them, all may be refused
	// once more.
	maxTold = 16384
)

// pattern is what begins and ends the keys that were read by it.
type pattern struct{ prefix, suffix string }

func (p pattern) fits(key []byte) bool {
	return len(key) >= len(p.prefix)+len(p.suffix) && bytes.HasPrefix(key, []byte(p.prefix)) && bytes.HasSuffix(key, []byte(p.suffix))
}

// reach is a pattern that reaches into rules.
type reach struct {
	pattern
	rules []*rule.Rule
}

// patterns are those by which an owner has read. They are safe for concurrent use.
type patterns struct {
	some  atomic.Bool // nothing is locked for those who never SORT
	mu    sync.Mutex
	list  []patternRead
	count uint64            // of reads so far
	told  map[uint64]uint64 // keys of which the owner has been told, and after how many reads
}

type patternRead struct {
	pattern
	until  time.Time
	number uint64 // of the read
}

// read remembers a read by a pattern.
func (s *patterns) read(p pattern, until, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(r patternRead) bool { return r.pattern == p || !now.Before(r.until) })
	if len(s.list) == maxPatterns {
		p, s.list = pattern{}, s.list[:0]
	}
	s.count++
	s.list = append(s.list, patternRead{p, until, s.count})
	s.some.Store(true)
}

// has reports whether a key may have been read.
func (s *patterns) has(key []byte, hash uint64, now time.Time) bool {
	if !s.some.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.list {
		r := &s.list[i]
		if now.Before(r.until) && r.fits(key) && s.told[hash] < r.number {
			return true
		}
	}
	return false
}

// tell notes that the owner has been told of a key.
func (s *patterns) tell(hash uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil || len(s.told) == maxTold {
		s.told = map[uint64]uint64{}
	}
	s.told[hash] = s.count
}

// reaches returns a call's patterns that may read guarded keys. The error is a *deniedError: one names reserved keys.
// told is false if it is no such call, or can't be read.
func (c *client) reaches(cmd *command.Command, args [][]byte) (reached []reach, told bool, err error) {
	all, told := cmd.Patterns(args)
	for _, text := range all {
		prefix, rest, _ := bytes.Cut(text, []byte("*"))
		suffix, field, hash := bytes.Cut(rest, []byte("->"))
		if hash && len(field) == 0 {
			suffix = rest
		}
		if isReserved(prefix) {
			return nil, true, reserved(text)
		}
		r := reach{pattern: pattern{string(prefix), string(suffix)}}
		for set := range c.srv.rules.now().sets {
			r.rules = append(r.rules, set.Reached(prefix)...)
		}
		r.rules = slices.DeleteFunc(r.rules, func(by *rule.Rule) bool { return !by.Enforces() || c.onlyLooks(by) })
		if len(r.rules) > 0 {
			reached = append(reached, r)
		}
	}
	return reached, told, nil
}

// sets yields the rules that count, and those that did before.
func (e *edition) sets(yield func(*rule.Set) bool) {
	if !yield(e.set) {
		return
	}
	for i := range e.former {
		if !yield(e.former[i].set) {
			return
		}
	}
}

// readBy remembers the patterns of a call for those who are one owner with the client. That is done before it is sent, since
// its reply may be answered over another connection, and once more when it has been answered, since a write may have been
// refused meanwhile.
func (c *client) readBy(reached []reach) {
	if len(reached) == 0 {
		return
	}
	now := time.Now()
	for _, r := range reached {
		for _, by := range r.rules {
			until := now.Add(by.MaxHold)
			c.patterns.read(r.pattern, until, now)
			if shared := c.patternsOf(by); shared != nil {
				shared.read(r.pattern, until, now)
			}
		}
	}
}

// patternsOf are those of an owner of several connections; nil if the client is one by itself.
func (c *client) patternsOf(r *rule.Rule) *patterns {
	switch r.Owner {
	case rule.OwnerProxy:
		return &c.srv.patterns
	case rule.OwnerClient, rule.OwnerAuto:
		return &c.group(r).patterns
	}
	return nil
}

// unnamed notes, of a key that is about to be written, that its owner may have read it by a pattern.
func (c *client) unnamed(q *part, key []byte) {
	hash, now := maphash.Bytes(hashSeed, key), time.Now()
	shared := c.patternsOf(q.sequence.Rule)
	if c.patterns.has(key, hash, now) || shared != nil && shared.has(key, hash, now) {
		q.unnamed = append(q.unnamed, hash)
	}
}

// beforeWrite asks a sequence which token a write is to present.
func (c *client) beforeWrite(q *part, w *lock.Write, sent time.Time) (lock.Token, error) {
	if !w.Atomic && !q.reading {
		if err := c.behind.of(c, q.sequence); err != nil {
			q.sequence.GiveUp(w.Keys)
			return lock.Token{}, err
		}
	}
	for {
		token, err := q.sequence.BeforeWrite(context.Background(), *w, sent)
		var fenced *lock.FencedError
		if errors.As(err, &fenced) && fenced.Reason == lock.ReasonUnnamed {
			c.tellOf(q)
			w.Unnamed = nil
		}
		if !c.lookedOn(q.sequence, err) { // each time less is stale
			return token, err
		}
	}
}

// tellOf notes that the client hears that keys were read by patterns.
func (c *client) tellOf(q *part) {
	shared := c.patternsOf(q.sequence.Rule)
	for _, hash := range q.unnamed {
		c.patterns.tell(hash)
		if shared != nil {
			shared.tell(hash)
		}
	}
	q.unnamed = nil
}

// passPatterns passes a call that touches no guarded key but by patterns.
func (c *client) passPatterns(p plan, req resp.Request) error {
	if err := c.link(); err != nil {
		return c.broken(err)
	}
	c.readBy(p.reached)
	_, err := c.sync(req.Raw, true)
	c.readBy(p.reached)
	return err
}
