package provider

import (
	"context"
	"slices"
	"time"
)

// redlockLine is who waits for a session in this proxy, first come first served, and the hold that this proxy has. It
// is there while there is either. The redlock's mu guards it.
type redlockLine struct {
	hold   *redlockHold
	places []*redlockPlace // the first one asks the nodes, while there is no hold
	yield  bool            // others waited elsewhere when this proxy's hold was released
}

// redlockPlace is one waiter's.
type redlockPlace struct {
	l       *redlock
	session string
	turn    chan struct{}  // closed when it is the first, and nobody here holds the session
	wake    chan struct{}  // holds one when a hold was released elsewhere
	heard   map[string]int // nodes that told of a release, by the id of what was released; nil while it does not listen
	called  bool           // turn is closed
	yields  bool           // it lets others try first
}

// join joins the line.
func (l *redlock) join(session string) *redlockPlace {
	p := &redlockPlace{l: l, session: session, turn: make(chan struct{}), wake: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[session]
	if line == nil {
		line = &redlockLine{}
		l.lines[session] = line
	}
	line.places = append(line.places, p)
	l.advance(session)
	return p
}

// wait waits in line and then asks until there is a hold.
func (p *redlockPlace) wait(ctx context.Context, r *Request) (*redlockHold, error) {
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	refusal := &redlockRefusal{}
	for n := 0; ; n++ {
		if n > 0 || p.yields {
			woken, err := p.pause(ctx, n, refusal.free)
			if err != nil {
				return nil, err
			}
			if woken {
				n = 0
			}
		}
		hold, why, err := p.l.try(ctx, r)
		if hold != nil || err != nil {
			return hold, err
		}
		refusal = why
	}
}

// pause waits before the nodes are asked for the n-th time again: till a release is heard of, at most until
// those who hold the session must have come to their end.
func (p *redlockPlace) pause(ctx context.Context, n int, free time.Duration) (woken bool, err error) {
	p.listen()
	d := p.l.backoff(n)
	if free > 0 {
		d = min(d, free+p.l.backoff(0))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.wake:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// listen asks the nodes to tell of releases, once.
func (p *redlockPlace) listen() {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if p.heard == nil {
		p.heard = map[string]int{}
		p.l.listen(p.session, true)
	}
}

func (l *redlock) listen(session string, on bool) {
	for _, n := range l.nodes {
		n.listen(session, on)
	}
}

// heard is told by a node that the acquisition of that id was released there. A quorum of nodes is news.
func (l *redlock) heard(session, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[session]
	if line == nil || len(line.places) == 0 || line.places[0].heard == nil {
		return
	}
	p := line.places[0]
	if p.heard[id]++; p.heard[id] < l.quorum {
		return
	}
	clear(p.heard)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// leave leaves the line, with a hold or without one. It returns false for a hold that Close has not seen.
func (p *redlockPlace) leave(hold *redlockHold) (kept bool) {
	l := p.l
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.lines[p.session]
	line.places = slices.DeleteFunc(line.places, func(q *redlockPlace) bool { return q == p })
	if hold != nil && !l.closed && !hold.isOver() {
		line.hold = hold
		l.holds[hold] = struct{}{}
	}
	if p.heard != nil {
		l.listen(p.session, false)
	}
	l.advance(p.session)
	return !l.closed
}

// ended takes out a hold that is over. The next in line lets those who wait elsewhere try first.
func (l *redlock) ended(h *redlockHold, others bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.holds, h)
	session := h.claim.key.session
	if line := l.lines[session]; line != nil && line.hold == h {
		line.hold, line.yield = nil, others
		l.advance(session)
	}
}

// advance calls the first in line, or ends the line. Its caller has mu.
func (l *redlock) advance(session string) {
	line := l.lines[session]
	switch {
	case line.hold != nil:
	case len(line.places) > 0:
		if first := line.places[0]; !first.called {
			first.called, first.yields, line.yield = true, line.yield, false
			close(first.turn)
		}
	case line.yield: // also to others when the next one comes in a moment
		time.AfterFunc(l.settings.BackoffMax, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.lines[session] == line {
				line.yield = false
				l.advance(session)
			}
		})
	default:
		delete(l.lines, session)
	}
}
