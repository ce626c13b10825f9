package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// zookeeperPlace is somebody's place in the line for a session: a node to be.
type zookeeperPlace struct {
	session *zookeeperSession
	dir     string // the session's node
	id      string // beginning of the node's name, nobody else's
	data    []byte // who it is, for people
	waited  bool   // it has stood behind others
}

// zookeeperNode is the node of a place, when it has been created.
type zookeeperNode struct {
	path   string
	grant  uint64
	events <-chan zk.Event       // tells when it is deleted
	early  <-chan zookeeperSight // has the first look ahead, which was asked for together with the rest; then nil
}

// zookeeperSight is who was seen next ahead.
type zookeeperSight struct {
	ahead *zookeeperNeighbour // nil for nobody
	err   error
}

// acquire stands in line until it is the first.
func (s *zookeeperSession) acquire(ctx context.Context, r Request) (Hold, error) {
	p := &zookeeperPlace{
		session: s, dir: s.locker.settings.Path + "/" + plainName(r.Session), id: rand.Text() + "-", data: []byte(r.Holder),
	}
	for {
		node, err := p.enter(ctx)
		if err != nil {
			return nil, p.unlessUnasked(ctx, err)
		}
		err = p.wait(ctx, node)
		if err == nil && node.grant <= r.Above {
			err = fmt.Errorf("zookeeper: transaction %d is not above %d, which was granted before: has this ensemble been made anew?",
				node.grant, r.Above)
		}
		switch {
		case err == nil:
			return newZooKeeperHold(s, p, node), nil
		case errors.Is(err, zk.ErrNoNode): // somebody has deleted it: to the end of the line
		default:
			p.leave(node.path)
			return nil, p.unlessUnasked(ctx, err)
		}
	}
}

// unlessUnasked is the error of an Acquire whose deadline may have passed without an answer, not behind others.
func (p *zookeeperPlace) unlessUnasked(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && (!p.waited || !p.session.isConnected()) {
		return p.session.unreachable(ctx.Err())
	}
	return err
}

// enter creates the node. If ctx ends meanwhile, the node is deleted as soon as the answer has come.
func (p *zookeeperPlace) enter(ctx context.Context) (*zookeeperNode, error) {
	type result struct {
		node *zookeeperNode
		err  error
	}
	entered := make(chan result) // unbuffered: the result is taken, or its maker keeps it
	s := p.session
	if !s.spawn(func() {
		node, err := p.create(ctx)
		select {
		case entered <- result{node, err}:
		case <-ctx.Done():
			if err == nil {
				p.remove(node.path)
			}
		case <-s.over:
		}
	}) {
		return nil, s.ended()
	}
	select {
	case r := <-entered:
		if errors.Is(r.err, zk.ErrSessionExpired) {
			s.end(errZooKeeperExpired)
			return nil, s.ended()
		}
		return r.node, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("zookeeper: create a node: %w", ctx.Err())
	case <-s.over:
		return nil, s.ended()
	}
}

// create creates the node, once: if an answer was lost, it looks for the node. It does not begin again after ctx has ended.
func (p *zookeeperPlace) create(ctx context.Context) (*zookeeperNode, error) {
	for ctx.Err() == nil {
		path, err := p.session.conn.Create(p.dir+"/"+p.id, p.data, zk.FlagEphemeralSequential, p.session.locker.acl)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err = p.makeDir()
		case zookeeperBroke(err):
			path, err = p.find()
		}
		if err != nil {
			return nil, p.explain("create a node", err)
		}
		if path == "" {
			continue
		}
		early := make(chan zookeeperSight, 1)
		p.session.spawn(func() {
			ahead, err := p.ahead(path)
			early <- zookeeperSight{ahead, err}
		})
		node, err := p.read(path)
		if node != nil {
			node.early = early
		}
		if node != nil || err != nil {
			return node, err
		}
	}
	return nil, p.explain("create a node", ctx.Err())
}

// read looks at a new node, and returns nil if it is gone already.
func (p *zookeeperPlace) read(path string) (*zookeeperNode, error) {
	for {
		_, stat, events, err := p.session.conn.GetW(path)
		if zookeeperBroke(err) {
			err = p.session.reconnected()
			if err == nil {
				continue
			}
		}
		if errors.Is(err, zk.ErrNoNode) {
			return nil, nil
		}
		node := &zookeeperNode{path: path, events: events}
		if err == nil {
			node.grant, err = zookeeperGrant(stat)
		}
		if err != nil {
			p.leave(path)
			return nil, p.explain("read the node", err)
		}
		return node, nil
	}
}

// zookeeperGrant is the grant that a node gives: the transaction that created it. Its upper half counts the ensemble's leaders, its
// lower half the transactions of each.
func zookeeperGrant(node *zk.Stat) (uint64, error) {
	if node.Czxid <= 0 || node.Czxid >= 1<<53 {
		return 0, fmt.Errorf("its transaction is %#x, and grants have to be below 2^53: the ensemble has had too many leaders; "+
			"use a new one", node.Czxid)
	}
	return uint64(node.Czxid), nil
}

// makeDir creates the session's node, of the kind that the servers remove when it has been without children for
// some time. It may be gone again before the node is created.
func (p *zookeeperPlace) makeDir() error {
	s := p.session
	for {
		_, err := s.conn.CreateContainer(p.dir, nil, zk.FlagContainer, s.locker.acl)
		switch {
		case err == nil || errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoNode):
			err = s.makePath(s.locker.settings.Path)
		}
		if zookeeperBroke(err) {
			err = s.reconnected()
		}
		if err != nil {
			return fmt.Errorf("create the container %s: %w", p.dir, err)
		}
	}
}

// find looks for the node whose creation was not answered, and returns "" if there is none.
func (p *zookeeperPlace) find() (string, error) {
	for {
		if err := p.session.reconnected(); err != nil {
			return "", err
		}
		children, err := p.children()
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return "", nil
		case zookeeperBroke(err):
		case err != nil:
			return "", err
		default:
			for _, child := range children {
				if strings.HasPrefix(child, p.id) {
					return p.dir + "/" + child, nil
				}
			}
			return "", nil
		}
	}
}

// children lists the line as of now: without the sync, a server that lags behind might not show a node that exists.
func (p *zookeeperPlace) children() ([]string, error) {
	if _, err := p.session.conn.Sync(p.dir); err != nil {
		return nil, err
	}
	children, _, err := p.session.conn.Children(p.dir)
	return children, err
}

// wait returns when nobody is ahead of the node, or zk.ErrNoNode when the node is gone.
func (p *zookeeperPlace) wait(ctx context.Context, node *zookeeperNode) error {
	s := p.session
	for {
		ahead, err := zookeeperAsk(ctx, s, func() (*zookeeperNeighbour, error) {
			if early := node.early; early != nil {
				node.early = nil
				seen := <-early
				return seen.ahead, seen.err
			}
			return p.ahead(node.path)
		})
		switch {
		case err == nil && ahead == nil && s.stands():
			return nil
		case err == nil && ahead == nil: // the clock says so, the rest follows
			s.end(errZooKeeperSilent)
			return s.ended()
		case zookeeperBroke(err):
			_, err = zookeeperAsk(ctx, s, func() (struct{}, error) { return struct{}{}, s.reconnected() })
		case err == nil:
			p.waited = true
			err = ahead.leaves(ctx, s, node)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return p.explain("wait", err)
		}
		if err != nil {
			return err
		}
	}
}

// zookeeperNeighbour is the node next ahead.
type zookeeperNeighbour struct {
	name   string
	who    string
	events <-chan zk.Event // one comes when it is gone or changed
}

// ahead looks for the node next ahead, nil if there is none.
func (p *zookeeperPlace) ahead(path string) (*zookeeperNeighbour, error) {
	for {
		children, _, err := p.session.conn.Children(p.dir)
		if err != nil {
			return nil, err
		}
		name, ok := zookeeperAhead(children, path[len(p.dir)+1:])
		if !ok {
			return nil, zk.ErrNoNode
		}
		if name == "" {
			return nil, nil
		}
		// Not ExistsW: that would leave a watch on a node that is gone, for good.
		who, _, events, err := p.session.conn.GetW(p.dir + "/" + name)
		switch {
		case err == nil:
			return &zookeeperNeighbour{name, string(who), events}, nil
		case !errors.Is(err, zk.ErrNoNode):
			return nil, err
		}
	}
}

// leaves waits until the neighbour may have left.
func (n *zookeeperNeighbour) leaves(ctx context.Context, s *zookeeperSession, node *zookeeperNode) error {
	select {
	case <-n.events:
		return nil
	case e := <-node.events:
		if e.Type == zk.EventNodeDeleted {
			return zk.ErrNoNode
		}
		node.events = nil // somebody has written to it; the next look tells if it is gone
		return nil
	case <-s.over:
		return s.ended()
	case <-ctx.Done():
		return fmt.Errorf("behind %s (%s): %w", n.who, n.name, ctx.Err())
	}
}

// zookeeperAhead returns the child next ahead of the own one, "" if there is none, and whether the own one is
// among them. Children of other kinds don't count.
func zookeeperAhead(children []string, own string) (ahead string, there bool) {
	place, _ := zookeeperSequence(own)
	var best int32
	for _, child := range children {
		sequence, ok := zookeeperSequence(child)
		switch {
		case child == own:
			there = true
		// The servers count on from 2^31-1 to -2^31, so numbers are compared by their distance.
		case ok && sequence-place < 0 && (ahead == "" || sequence-best > 0):
			ahead, best = child, sequence
		}
	}
	return ahead, there
}

// zookeeperSequence is the number that the servers have put behind a name, and a "-".
func zookeeperSequence(name string) (sequence int32, ok bool) {
	_, digits, found := strings.Cut(name, "-")
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), found && err == nil
}

// leave gives the place up without waiting for it.
func (p *zookeeperPlace) leave(path string) {
	p.session.spawn(func() { p.remove(path) }) // with a session that is over, it is gone
}

// remove deletes a node, for as long as it takes.
func (p *zookeeperPlace) remove(path string) {
	s := p.session
	for {
		err := s.conn.Delete(path, -1)
		switch {
		case err == nil || errors.Is(err, zk.ErrNoNode):
			return
		case !zookeeperBroke(err):
			s.log.Warn("a node could not be deleted; it stays until the ZooKeeper session ends", "node", path, "error", err)
			return
		}
		if s.reconnected() != nil {
			return
		}
	}
}

// explain says what an error was about, unless it is about the ZooKeeper session.
func (p *zookeeperPlace) explain(what string, err error) error {
	if errors.Is(err, errZooKeeperSessionOver) {
		return err
	}
	return fmt.Errorf("zookeeper: %s in %s: %w", what, p.dir, err)
}

// zookeeperBroke reports whether the connection broke, so the question may or may not have been heard.
func zookeeperBroke(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) || errors.Is(err, zk.ErrSessionMoved) ||
		errors.Is(err, zk.ErrClosing) || errors.Is(err, errZooKeeperWire)
}
