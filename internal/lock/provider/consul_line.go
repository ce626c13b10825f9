package provider

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// consulLine is who of this proxy wants a key, first come first served. The first one contends for it or holds it.
type consulLine []*consulPlace

// consulPlace is one owner's place in its proxy's line.
type consulPlace struct {
	locker *consul
	key    string
	value  string        // nobody else's, so a key that has it is this owner's
	turn   chan struct{} // closed when it is the first
	above  uint64        // Request.Above
	left   sync.Once

	unanswered *consulSession // the session of a lock that was not answered; nil if there was none

	mu      sync.Mutex
	waitFor string // who or what it waited for last, for people; "" if it has not waited
}

// enter goes to the end of the line.
func (l *consul) enter(r Request) *consulPlace {
	p := &consulPlace{
		locker: l, key: l.settings.Path + "/" + plainName(r.Session), turn: make(chan struct{}), above: r.Above,
		value: fmt.Sprintf("%s (asked %s, proxy %s, no. %d)", r.Holder, time.Now().Format(time.RFC3339), l.env.Proxy, l.serial.Add(1)),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[p.key] = append(l.lines[p.key], p)
	if l.lines[p.key][0] == p {
		close(p.turn)
	}
	return p
}

// leave goes out of the line, and lets the next have its turn.
func (p *consulPlace) leave() {
	p.left.Do(func() {
		if p.unanswered != nil {
			p.locker.spawn(func() { p.forget(p.unanswered) }) // a Locker that closes ends its session
		}
		p.goAway()
	})
}

func (p *consulPlace) goAway() {
	l := p.locker
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[p.key]
	i := slices.Index(line, p)
	line = slices.Delete(line, i, i+1)
	l.lines[p.key] = line
	switch {
	case len(line) == 0:
		delete(l.lines, p.key)
	case i == 0:
		close(line[0].turn)
	}
}

// awaitTurn waits until the place is the first.
func (p *consulPlace) awaitTurn(ctx context.Context) error {
	select {
	case <-p.turn:
		return nil
	default:
	}
	p.waitsFor("others of this proxy")
	select {
	case <-p.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitsFor notes what the place waits for, and reports whether that is new.
func (p *consulPlace) waitsFor(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.waitFor != what
	p.waitFor = what
	return changed
}

// waitedFor is what the place has waited for last.
func (p *consulPlace) waitedFor() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waitFor
}
