package cluster

import (
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/slot"
)

// node is one server of the cluster.
type node struct {
	addr  string
	down  trouble // since when it can't be reached
	known known   // scripts that it has
}

// trouble remembers since when something does not work.
type trouble struct {
	mu    sync.Mutex
	start time.Time // zero: it works
}

// since returns since when, which is now if it worked so far.
func (t *trouble) since() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start.IsZero() {
		t.start = time.Now()
	}
	return t.start
}

func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start = time.Time{}
}

// topology is who has which slots. It does not change; another takes its place.
type topology struct {
	primaries []*node            // with slots, by address
	owner     [slot.Count]uint16 // index into primaries plus one; 0: nobody
	failed    map[*node]bool     // the nodes agree that it is down
	sum       uint32             // differs when any slot has another owner
}

// of returns who has a slot, nil if nobody.
func (t *topology) of(slot int) *node {
	if i := t.owner[slot]; i > 0 {
		return t.primaries[i-1]
	}
	return nil
}

// has reports whether a node is a primary.
func (t *topology) has(n *node) bool { return slices.Contains(t.primaries, n) }

// newTopology makes a topology of who owns what.
func newTopology(owners *[slot.Count]*node, failed map[*node]bool) *topology {
	t := &topology{failed: failed}
	for _, n := range owners {
		if n != nil && !slices.Contains(t.primaries, n) {
			t.primaries = append(t.primaries, n)
		}
	}
	slices.SortFunc(t.primaries, func(a, b *node) int { return strings.Compare(a.addr, b.addr) })
	sum := fnv.New32a()
	for _, n := range t.primaries {
		_, _ = sum.Write([]byte(n.addr + " "))
	}
	last, index := (*node)(nil), uint16(0)
	for i, n := range owners {
		if n != last {
			last, index = n, uint16(slices.Index(t.primaries, n)+1)
		}
		t.owner[i] = index
		_, _ = sum.Write([]byte{byte(index), byte(index >> 8)})
	}
	t.sum = sum.Sum32()
	return t
}

// owners is who owns what, as newTopology takes it.
func (t *topology) owners() *[slot.Count]*node {
	var owners [slot.Count]*node
	for i := range owners {
		owners[i] = t.of(i)
	}
	return &owners
}

// node returns the node at an address.
func (c *Cluster) node(addr string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[addr]
	if n == nil {
		n = &node{addr: addr}
		c.nodes[addr] = n
	}
	return n
}

// read makes a topology of what a node answers to CLUSTER SLOTS and CLUSTER NODES.
func (c *Cluster) read(asked string, ranges []redis.ClusterSlot, members string) *topology {
	var owners [slot.Count]*node
	failing := map[string]bool{}
	for line := range strings.Lines(members) {
		if words := strings.Fields(line); len(words) > 2 {
			failing[words[0]] = slices.Contains(strings.Split(words[2], ","), "fail")
		}
	}
	failed := map[*node]bool{}
	for _, r := range ranges {
		if len(r.Nodes) == 0 || r.Start < 0 || r.End >= slot.Count {
			continue
		}
		n := c.node(beside(asked, r.Nodes[0].Addr))
		if failing[r.Nodes[0].ID] {
			failed[n] = true
		}
		for i := r.Start; i <= r.End; i++ {
			owners[i] = n
		}
	}
	return newTopology(&owners, failed)
}

// beside completes an address that a node has named: without a host, it means its own.
func beside(asked, addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "" && host != "?" {
		return addr
	}
	host, _, _ = net.SplitHostPort(asked)
	return net.JoinHostPort(host, port)
}

// moved takes in that a slot is at another node now, as a node has said.
func (c *Cluster) moved(slot int, to *node) {
	c.mu.Lock()
	t := c.topology.Load()
	if t.of(slot) == to {
		c.mu.Unlock()
		return
	}
	owners := t.owners()
	owners[slot] = to
	c.topology.Store(newTopology(owners, t.failed))
	c.mu.Unlock()
	if !t.has(to) {
		c.each(func(f *front) { f.nudge() }) // there is a primary more to be heard
		c.changed()
	}
	select {
	case c.look <- struct{}{}: // others may have moved, too
	default:
	}
}
