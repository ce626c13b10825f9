package cluster

import (
	"context"
	"fmt"
	"slices"
)

// refresh asks for the slots anew, unless somebody does already.
func (c *Cluster) refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), c.options.DialTimeout)
	defer cancel()
	if err := c.find(ctx); err != nil {
		c.options.Log.Debug("the cluster's nodes don't tell of its slots", "error", err)
	}
}

// at returns the connection to a node, which is made if there is none.
func (f *front) at(n *node) (*conn, error) {
	if c := f.main[n]; c != nil {
		if !c.lost.Load() {
			return c, nil
		}
		f.leave(c)
	}
	c, err := f.connect(n)
	if err != nil {
		return nil, err
	}
	f.main[n] = c
	return c, nil
}

// leave closes a connection, with nothing to come on it. The front ends if the client has state there: it would go on without.
func (f *front) leave(c *conn) {
	f.mu.Lock()
	stands := f.stands(c)
	f.mu.Unlock()
	if stands {
		f.end(fmt.Errorf("the connection to %s, where the client has state, has ended", c.n.addr))
	}
	f.dismiss(c)
}

// dismiss is leave for a connection whose state nobody wants.
func (f *front) dismiss(c *conn) {
	if f.main[c.n] == c {
		delete(f.main, c.n)
	}
	if f.written == c {
		f.written = nil
	}
	f.mu.Lock()
	c.left, c.subs = true, subscriptions{}
	f.conns = slices.DeleteFunc(slices.Clone(f.conns), func(other *conn) bool { return other == c })
	f.listen()
	f.mu.Unlock()
	_ = c.SetDeadline(past)
	<-c.done
}

// tidy takes up a new topology when nothing is under way, and lets go of nodes that are no primaries any more. What has state
// at one of them ends with it.
func (f *front) tidy() error {
	t := f.c.topology.Load()
	if t == f.topology && !f.partial.Load() {
		return nil
	}
	if err := f.drained(); err != nil {
		return err
	}
	f.topology = t
	for n, c := range f.main {
		f.mu.Lock()
		stands := f.stands(c)
		f.mu.Unlock()
		if c.lost.Load() || !t.has(n) && !stands && n != f.home {
			f.leave(c)
		}
	}
	if !t.has(f.home) {
		f.rehome(f.c.home(t))
	}
	return f.subscribeEverywhere()
}

// rehome has another node get what has no keys, unless the client has state at the one before.
func (f *front) rehome(n *node) {
	old := f.main[f.home]
	f.mu.Lock()
	if old != nil && f.stands(old) {
		f.mu.Unlock()
		return
	}
	former := f.home
	f.home = n
	f.mu.Unlock()
	if old != nil && former != n && !f.topology.has(former) {
		f.leave(old)
	}
}

// another returns a primary for what has no keys, another one at each trial.
func (f *front) another(trial int) *node {
	primaries := f.c.topology.Load().primaries
	n := primaries[(f.c.picked+uint32(trial))%uint32(len(primaries))]
	f.rehome(n)
	return f.home
}

// stands reports whether a connection has state that would be lost with it. The caller holds mu.
func (f *front) stands(c *conn) bool {
	return c.subs.any() || f.session.tracks || c == f.watched || f.tx != nil && f.tx.c == c
}
