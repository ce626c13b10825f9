package proxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// A group is the connections of one client: rules with owner: client take them for one owner, those with
// owner: auto from when the client turns out to pool them. What a group has read outlives its last
// connection, since a client may make one for each command.

// idleGroups bounds the groups that are remembered without a connection.
const idleGroups = 1024

// groupKey is what the connections of one client have in common.
type groupKey struct {
	host, user, library string // empty where the name alone decides
	name                string
}

// group is one client.
type group struct {
	key      groupKey
	locks    *lock.Group
	patterns patterns // by which it has read
	members  int
	left     time.Time // when the last connection closed
}

// groups are a server's clients.
type groups struct {
	mu    sync.Mutex
	byKey map[groupKey]*group
	idle  []*group // without a connection, in the order in which they were left
}

// join returns the group of a connection. Its messages name it by id.
func (all *groups) join(m *lock.Manager, key groupKey, id tokenstore.Identity) *group {
	all.mu.Lock()
	defer all.mu.Unlock()
	g := all.byKey[key]
	switch {
	case g == nil:
		g = &group{key: key, locks: m.Group(id)}
		if all.byKey == nil {
			all.byKey = map[groupKey]*group{}
		}
		all.byKey[key] = g
	case g.members == 0:
		all.idle = slices.DeleteFunc(all.idle, func(other *group) bool { return other == g })
	}
	g.members++
	return g
}

// count returns how many connections a group has.
func (all *groups) count(g *group) int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return g.members
}

// leave ends a connection's part in its group. Groups that were left longer ago than age are forgotten.
func (all *groups) leave(g *group, c *client, age time.Duration) {
	g.locks.Owner().Leave(c)
	all.mu.Lock()
	defer all.mu.Unlock()
	if g.members--; g.members > 0 {
		return
	}
	g.left = time.Now()
	all.idle = append(all.idle, g)
	for len(all.idle) > idleGroups || g.left.Sub(all.idle[0].left) > age {
		old := all.idle[0]
		all.idle = all.idle[1:]
		delete(all.byKey, old.key)
		old.locks.Close()
	}
}

// groupKey is the client's, as a rule tells clients.
func (c *client) groupKey(by rule.ClientBy) groupKey {
	if by == rule.ByName && c.state.name != "" {
		return groupKey{name: c.state.name}
	}
	return groupKey{host: c.host(), user: c.user(), library: c.state.library, name: c.state.name}
}

// host is where the client is: its address without the port, or its process.
func (c *client) host() string {
	if _, unix := c.nc.RemoteAddr().(*net.UnixAddr); unix {
		return "process " + strconv.Itoa(c.nc.Process())
	}
	host, _, err := net.SplitHostPort(c.address())
	if err != nil {
		return c.address()
	}
	return host
}

// user is as whom the client's commands are carried out.
func (c *client) user() string {
	if a := c.account.Load(); a != nil && a.Name != "" {
		return a.Name
	}
	user := ""
	switch login := c.state.login; {
	case login == nil:
		user = c.srv.upstream.Options.Username
	case len(login) == 2:
		user = login[0]
	}
	if user == "" {
		return "default"
	}
	return user
}

// group returns the client's group under a rule. When what they have in common changes, the connection goes over
// to another one, as soon as it has nothing read and not written.
func (c *client) group(r *rule.Rule) *group {
	g := c.groups[r.ClientBy]
	if g != nil && !c.regroup {
		return g
	}
	key := c.groupKey(r.ClientBy)
	if g != nil {
		if g.key == key || g.locks.Owner().Unwrites(c) {
			return g
		}
		c.srv.groups.leave(g, c, c.srv.longestHold())
	}
	id := c.identity()
	if id.Client = key.host + ", all connections"; key.host == "" {
		id.Client = "with all connections"
	} else if id.Name == "" {
		id.Name = key.library
	}
	g = c.srv.groups.join(c.srv.locks, key, id)
	g.locks.Owner().Belongs(c.label())
	if c.groups == nil {
		c.groups = map[rule.ClientBy]*group{}
	}
	c.groups[r.ClientBy] = g
	c.owner.Belong(r.ClientBy, g.locks, c)
	c.regroup = slices.ContainsFunc([]rule.ClientBy{rule.ByAddress, rule.ByName}, func(by rule.ClientBy) bool {
		return c.groups[by] != nil && c.groups[by].key != c.groupKey(by)
	})
	return g
}

// leaveGroups ends the client's part in its groups.
func (c *client) leaveGroups() {
	for _, g := range c.groups {
		c.srv.groups.leave(g, c, c.srv.longestHold())
	}
}

// longestHold is how long what was read may be about to be written, under any rule.
func (s *Server) longestHold() (longest time.Duration) {
	for _, r := range s.rules.now().set.Rules() {
		longest = max(longest, r.MaxHold)
	}
	return longest
}

// ownerOf is who a rule says the client is.
func (c *client) ownerOf(r *rule.Rule) *lock.Owner {
	switch r.Owner {
	case rule.OwnerProxy:
		return c.srv.owner
	case rule.OwnerClient, rule.OwnerAuto:
		if c.onlyLooks(r) {
			return c.owner
		}
		if g := c.group(r); r.Owner == rule.OwnerClient || g.locks.Pooled() {
			return g.locks.Owner()
		}
	}
	return c.owner
}

// onlyLooks reports whether the rule names the client among its readers.
func (c *client) onlyLooks(r *rule.Rule) bool {
	return len(r.Readers) > 0 &&
		(slices.Contains(r.Readers, c.user()) || c.state.name != "" && slices.Contains(r.Readers, c.state.name))
}

// whose looks, before a guarded command, whether its client pools its connections, and goes over to the sequences
// of the group's owner then.
func (c *client) whose(p plan, b body, start time.Time) error {
	for i := range p.parts {
		q := &p.parts[i]
		r := q.sequence.Rule
		if q.lone = false; r.Owner != rule.OwnerAuto || q.sequence.Shared() || c.onlyLooks(r) {
			continue
		}
		g := c.group(r)
		if g.locks.Owner().Crowded() && !g.locks.Pooled() && q.sequence.KinReads() {
			c.pools(g, q.sequence) // its tasks have several connections in common
		}
		if p.writes && !p.readBefore(i) && !q.reading && !b.now && !g.locks.Pooled() {
			reads, err := c.siblingReads(q.sequence, start)
			if err != nil {
				return err
			}
			if q.lone = q.sequence.Lone(); reads {
				c.pools(g, q.sequence)
			}
		}
		if g.locks.Pooled() {
			q.sequence = g.locks.Owner().Sequence(q.sequence.Record.Area, r, []byte(q.sequence.Record.Session)).Under(r, p.writes)
		}
	}
	return nil
}

// readBefore reports whether a write goes back to what its own connection has read, of the same keys, under a rule from before a
// reload.
func (p *plan) readBefore(i int) bool {
	return p.aged && slices.ContainsFunc(p.parts, func(old part) bool {
		return old.sequence != p.parts[i].sequence && !old.sequence.Lone() &&
			!slices.ContainsFunc(p.parts[i].keys, func(key uint64) bool { return !slices.Contains(old.keys, key) })
	})
}

// siblingReads reports whether another connection of the client's has read what this one has not, and is about to
// write. It waits for a read that is just being answered.
func (c *client) siblingReads(s *lock.Sequence, start time.Time) (bool, error) {
	for {
		reads, stirred := s.SiblingReads()
		if reads || stirred == nil {
			return reads, nil
		}
		if over, err := c.pause(stirred, s.Rule.Wait-time.Since(start)); over || err != nil {
			return false, err
		}
	}
}

// pools makes the client's connections one owner.
func (c *client) pools(g *group, s *lock.Sequence) {
	if !g.locks.Pool() {
		return
	}
	c.srv.metrics.ClientPools(s.Rule.Name, string(s.Rule.Mode))
	c.srv.log.Info("client pools its connections: from now on they are one owner", "client", c.host(), "user", c.user(),
		"library", c.state.library, "name", c.state.name, "connections", c.srv.groups.count(g), "rule", s.Rule.Name)
}

// errKin says that a session is held by another connection of the same client, which may have read it for the
// very task that now comes over this one.
var errKin = errors.New("another connection of the same client holds the session")

// kinError is errKin for one session.
type kinError struct {
	part    *part
	holder  tokenstore.Holder
	stirred <-chan struct{} // closed when something changes about the session; may be nil
}

func (e *kinError) Error() string { return errKin.Error() }
func (e *kinError) Unwrap() error { return errKin }

// kin returns a *kinError if the holder that the store names is of the client's.
func (q *part) kin(holder tokenstore.Holder) error {
	if !q.lone && !q.sequence.Shared() {
		return nil
	}
	if held, stirred := q.sequence.HeldByKin(holder.Owner); held {
		return &kinError{q, holder, stirred}
	}
	return nil
}

// together goes on after a *kinError: the client pools.
func (c *client) together(e *kinError, start time.Time) error {
	s := e.part.sequence
	if s.Rule.Owner == rule.OwnerAuto {
		c.pools(c.group(s.Rule), s)
	}
	if e.stirred == nil {
		return nil
	}
	over, err := c.pause(e.stirred, s.Rule.Wait-time.Since(start))
	if over {
		return c.locked(s, e.holder, start)
	}
	return err
}

// heldByKin leaves the store's queue for a read that found the session held by kin.
func (c *client) heldByKin(q *part, b tokenstore.Begin) error {
	err := q.kin(b.Holder)
	if err != nil && !b.Full && b.Ahead >= 0 && q.sequence.Rule.Wait > 0 {
		c.unqueue(context.Background(), q.sequence, 0)
	}
	return err
}
