package harness

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// Cluster is a real Redis Cluster on loopback ports.
type Cluster struct {
	// Nodes are all that were ever started: first the primaries by their slots, then the replicas by
	// their primaries, then those that joined. Roles change with failovers, places don't.
	Nodes []*ClusterNode

	tb        testing.TB
	options   []RedisOption
	severable bool
	secure    bool
	primaries int // at the start
}

// ClusterNode is one server of a cluster. Stopped, killed or paused it stays a member, and comes
// back with [Redis.Restart].
type ClusterNode struct {
	*Redis

	ID string // as CLUSTER MYID says

	ask *redis.Client // straight to the node

	// Of a severable cluster: where its servers come from, and what everybody reaches it by.
	source    string
	data, bus *Relay
}

// StartCluster starts a cluster of so many primaries, which share the slots evenly in their order, with so many
// replicas each, and waits until it serves and all replicas are in step. The options are for each server; by default a node
// that is silent for a second counts as failed, and nothing is persisted but who is who.
func StartCluster(tb testing.TB, primaries, replicas int, options ...RedisOption) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, options: options}
	c.form(primaries, replicas)
	return c
}

// StartSeverableCluster is [StartCluster] for a cluster whose nodes can be cut off from each other (Isolate), and not from
// clients. Its nodes announce relays, and connect to each other from addresses of their own.
func StartSeverableCluster(tb testing.TB, primaries, replicas int, options ...RedisOption) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, options: options, severable: true}
	c.form(primaries, replicas)
	return c
}

// StartSecureCluster is [StartCluster] for a cluster that speaks TLS with everybody.
func StartSecureCluster(tb testing.TB, ca *Authority, primaries, replicas int) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, options: []RedisOption{WithTLS(ca), WithArgs("--tls-cluster", "yes", "--tls-replication", "yes")}, secure: true}
	c.form(primaries, replicas)
	return c
}

// form starts the nodes and makes them a cluster.
func (c *Cluster) form(primaries, replicas int) {
	c.tb.Helper()
	c.primaries = primaries
	for range primaries * (1 + replicas) {
		c.start()
	}
	ctx := context.Background()
	for i, n := range c.Nodes[:primaries] {
		var mine []any
		for slot := i * slots / primaries; slot < (i+1)*slots/primaries; slot++ {
			mine = append(mine, slot)
		}
		n.do(ctx, append([]any{"CLUSTER", "ADDSLOTS"}, mine...)...)
	}
	for i, n := range c.Nodes {
		n.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1) // before they meet: else they have to agree on who is newer
	}
	c.meet(c.Nodes[1:]...)
	for i, n := range c.Nodes[primaries:] {
		c.replicate(n, c.Nodes[i/replicas])
	}
	c.WaitOK()
}

// start starts a server that is in cluster mode and knows nobody.
func (c *Cluster) start() *ClusterNode {
	c.tb.Helper()
	port := freeClusterPort(c.tb)
	n := &ClusterNode{}
	options := []RedisOption{withPort(port), WithArgs(
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0",
		"--cluster-migration-barrier", "100", // replicas stay where they are: durability counts on them
	)}
	if c.severable {
		n.source = fmt.Sprintf("127.0.0.%d", 10+len(c.Nodes))
		n.data, n.bus = StartRelay(c.tb, loopback(port)), StartRelay(c.tb, loopback(port+busOffset))
		options = append(options, withSource(c.tb, n.source), WithArgs(
			"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", portOf(n.data.Addr), "--cluster-announce-bus-port", portOf(n.bus.Addr),
		))
	}
	n.Redis = StartRedis(c.tb, append(options, c.options...)...)
	n.ask = n.Client(func(o *redis.Options) { o.MaxRetries = -1 })
	n.ID, _ = n.do(context.Background(), "CLUSTER", "MYID").(string)
	c.Nodes = append(c.Nodes, n)
	return n
}

// meet makes nodes known to the first one, and waits until everybody knows everybody.
func (c *Cluster) meet(nodes ...*ClusterNode) {
	c.tb.Helper()
	for _, n := range nodes {
		meet := []any{"CLUSTER", "MEET", "127.0.0.1", n.Port}
		switch {
		case c.severable:
			meet = []any{"CLUSTER", "MEET", "127.0.0.1", portOf(n.data.Addr), portOf(n.bus.Addr)}
		case c.secure:
			meet = []any{"CLUSTER", "MEET", "127.0.0.1", portOf(n.Secure)}
		}
		c.Nodes[0].do(context.Background(), meet...)
	}
	c.eventually("all nodes know each other", func(n *ClusterNode) bool {
		info := n.nodes()
		return !strings.Contains(info, "handshake") && strings.Count(info, "\n") == len(c.Nodes)
	})
}

// replicate makes a node another's replica.
func (c *Cluster) replicate(n, of *ClusterNode) {
	c.tb.Helper()
	n.do(context.Background(), "CLUSTER", "REPLICATE", of.ID)
}

// Way is the relay by which clients reach a node of a severable cluster.
func (n *ClusterNode) Way() *Relay { return n.data }

// Direct is a client that reaches the nodes of a severable cluster without their relays, as its slots were at the start.
func (c *Cluster) Direct() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		var all []redis.ClusterSlot
		for i := range c.primaries {
			all = append(all, redis.ClusterSlot{
				Start: i * slots / c.primaries, End: (i+1)*slots/c.primaries - 1, Nodes: []redis.ClusterNode{{Addr: loopback(c.Nodes[i].Port)}},
			})
		}
		return all, nil
	}})
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Isolate cuts a node of a severable cluster off from all others; clients still reach it. Until Join.
func (c *Cluster) Isolate(n *ClusterNode) {
	for _, other := range c.Nodes {
		if other == n {
			continue
		}
		for _, r := range []*Relay{n.data, n.bus} {
			r.Bar(other.source)
		}
		for _, r := range []*Relay{other.data, other.bus} {
			r.Bar(n.source)
		}
	}
}

// Join ends what Isolate has done.
func (c *Cluster) Join() {
	for _, n := range c.Nodes {
		n.data.Admit()
		n.bus.Admit()
	}
}

// AddPrimary has a new node join, which has no slots yet.
func (c *Cluster) AddPrimary() *ClusterNode {
	c.tb.Helper()
	n := c.start()
	c.meet(n)
	c.WaitOK()
	return n
}

// AddReplica has a new node join as a replica, and waits until it is in step.
func (c *Cluster) AddReplica(of *ClusterNode) *ClusterNode {
	c.tb.Helper()
	n := c.start()
	c.meet(n)
	c.replicate(n, of)
	c.WaitOK()
	return n
}

// URL is the cluster's address as an upstream URL, with all nodes as seeds.
func (c *Cluster) URL() string {
	login := ""
	if password := c.Nodes[0].password; password != "" {
		login = ":" + password + "@"
	}
	if c.secure {
		var addrs []string
		for _, n := range c.Nodes {
			addrs = append(addrs, n.Secure)
		}
		return "rediss+cluster://" + login + strings.Join(addrs, ",")
	}
	return "redis+cluster://" + login + strings.Join(c.Addrs(), ",")
}

// Addrs are the nodes' addresses.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Client returns go-redis's client of the cluster, closed when the test ends.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Password: c.Nodes[0].password})
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Slot is the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.tb.Helper()
	for _, n := range c.running() {
		if slot, err := n.ask.ClusterKeySlot(context.Background(), key).Result(); err == nil {
			return int(slot)
		}
	}
	c.tb.Fatal("no node of the cluster answers")
	return 0
}

// Key returns a key of a slot: its hash tag is a number, and the rest as given.
func (c *Cluster) Key(slot int, rest string) string {
	c.tb.Helper()
	for n := 0; ; n += 1000 {
		pipe := c.Nodes[0].ask.Pipeline()
		for i := n; i < n+1000; i++ {
			pipe.ClusterKeySlot(context.Background(), strconv.Itoa(i))
		}
		replies, err := pipe.Exec(context.Background())
		if err != nil {
			c.tb.Fatalf("ask for the slots of keys: %v", err)
		}
		for i, r := range replies {
			if r.(*redis.IntCmd).Val() == int64(slot) { //nolint:forcetypeassert // it is what ClusterKeySlot makes
				return fmt.Sprintf("{%d}%s", n+i, rest)
			}
		}
	}
}

// Of returns the primary that has a key, as most nodes that run see it.
func (c *Cluster) Of(key string) *ClusterNode {
	c.tb.Helper()
	return c.Owner(c.Slot(key))
}

// Owner returns the primary that has a slot, as most nodes that run see it. Nil if they know of none.
func (c *Cluster) Owner(slot int) *ClusterNode {
	c.tb.Helper()
	votes := map[string]int{}
	for _, n := range c.running() {
		votes[n.owner(slot)]++
	}
	best := ""
	for id, count := range votes {
		if count > votes[best] {
			best = id
		}
	}
	return c.node(best)
}

// Replicas are the replicas of a node that run, as it knows them.
func (c *Cluster) Replicas(of *ClusterNode) []*ClusterNode {
	c.tb.Helper()
	var found []*ClusterNode
	for _, n := range c.running() {
		if n.primary() == of.ID {
			found = append(found, n)
		}
	}
	return found
}

// Failover makes a replica the primary of its group and waits until all nodes that run know. With its primary gone or silent
// it needs no vote (TAKEOVER), else the two hand over in an orderly way.
func (c *Cluster) Failover(replica *ClusterNode) {
	c.tb.Helper()
	args := []any{"CLUSTER", "FAILOVER"}
	if p := c.node(replica.primary()); p == nil || !p.answers() {
		args = append(args, "TAKEOVER")
	}
	replica.do(context.Background(), args...)
	c.eventually("the replica is a primary", func(n *ClusterNode) bool { return n.knows(replica.ID, "master") })
	c.WaitOK()
}

// Migrate moves a slot with all its keys to another primary, and waits until all nodes that run know.
func (c *Cluster) Migrate(slot int, to *ClusterNode) {
	c.tb.Helper()
	from := c.BeginMigration(slot, to)
	for {
		keys, err := from.ask.ClusterGetKeysInSlot(context.Background(), slot, 100).Result()
		if err != nil {
			c.tb.Fatalf("list the keys of slot %d: %v", slot, err)
		}
		if len(keys) == 0 {
			break
		}
		c.MoveKeys(slot, to, keys...)
	}
	c.EndMigration(slot, to)
}

// BeginMigration opens a slot for its move: keys that are not there any more are asked for at the other node (ASK). It
// returns the node that has it.
func (c *Cluster) BeginMigration(slot int, to *ClusterNode) (from *ClusterNode) {
	c.tb.Helper()
	from = c.Owner(slot)
	to.do(context.Background(), "CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID)
	from.do(context.Background(), "CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID)
	return from
}

// MoveKeys moves keys of a slot that is open for its move.
func (c *Cluster) MoveKeys(slot int, to *ClusterNode, keys ...string) {
	c.tb.Helper()
	port := portOf(to.Addr)
	if to.Secure != "" {
		port = portOf(to.Secure)
	}
	args := []any{"MIGRATE", "127.0.0.1", port, "", 0, int(patience.Milliseconds()), "REPLACE"}
	if to.password != "" {
		args = append(args, "AUTH", to.password)
	}
	args = append(args, "KEYS")
	for _, k := range keys {
		args = append(args, k)
	}
	c.Owner(slot).do(context.Background(), args...)
}

// EndMigration makes the other node the slot's owner, and waits until all nodes that run know.
func (c *Cluster) EndMigration(slot int, to *ClusterNode) {
	c.tb.Helper()
	from := c.Owner(slot)
	to.do(context.Background(), "CLUSTER", "SETSLOT", slot, "NODE", to.ID)
	from.do(context.Background(), "CLUSTER", "SETSLOT", slot, "NODE", to.ID)
	for _, n := range c.running() { // the others would hear of it in a second or so
		if n != to && n != from && n.primary() == "" {
			n.do(context.Background(), "CLUSTER", "SETSLOT", slot, "NODE", to.ID)
		}
	}
	c.eventually(fmt.Sprintf("slot %d has moved", slot), func(n *ClusterNode) bool { return n.owner(slot) == to.ID })
}

// WaitOK waits until every node that runs says that the cluster is well, has no member in between roles, and all
// replicas are in step.
func (c *Cluster) WaitOK() {
	c.tb.Helper()
	c.eventually("the cluster is well", func(n *ClusterNode) bool {
		ctx := context.Background()
		info, err := n.ask.ClusterInfo(ctx).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return false
		}
		role, err := n.ask.Info(ctx, "replication").Result()
		return err == nil && (strings.Contains(role, "role:master") != (n.primary() != "")) &&
			(n.primary() == "" || strings.Contains(role, "master_link_status:up"))
	})
	for _, n := range c.running() { // a replica is known as one everywhere
		role := "master"
		if n.primary() != "" {
			role = "slave"
		}
		c.eventually("the nodes agree on roles", func(other *ClusterNode) bool { return other.knows(n.ID, role) })
	}
}

// eventually waits until a condition holds at every node that runs.
func (c *Cluster) eventually(what string, holds func(n *ClusterNode) bool) {
	c.tb.Helper()
	for _, n := range c.running() {
		Eventually(c.tb, 2*patience, func() bool { return !n.answers() || holds(n) }, what+", as "+n.Addr+" sees it")
	}
}

// running are the nodes that answer.
func (c *Cluster) running() []*ClusterNode {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *ClusterNode) bool { return !n.answers() })
}

func (c *Cluster) node(id string) *ClusterNode {
	for _, n := range c.Nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

func (n *ClusterNode) answers() bool {
	return !n.exited() && !stopped(n.Pid()) && n.ask.Ping(context.Background()).Err() == nil
}

func (n *ClusterNode) do(ctx context.Context, args ...any) any {
	n.tb.Helper()
	reply, err := n.ask.Do(ctx, args...).Result()
	if err != nil {
		n.tb.Fatalf("%v at %s: %v", args[:min(len(args), 4)], n.Addr, err)
	}
	return reply
}

// nodes is who is who as the node sees it, a member a line.
func (n *ClusterNode) nodes() string {
	text, _ := n.ask.ClusterNodes(context.Background()).Result()
	return text
}

// member is what the node knows of a member: the words of its line.
func (n *ClusterNode) member(id string) []string {
	for line := range strings.Lines(n.nodes()) {
		if words := strings.Fields(line); len(words) > 7 && words[0] == id {
			return words
		}
	}
	return nil
}

// knows reports whether the node knows a member in a role.
func (n *ClusterNode) knows(id, role string) bool {
	m := n.member(id)
	return len(m) > 2 && slices.Contains(strings.Split(m[2], ","), role)
}

// primary is the id of the node's primary, "" if it is one.
func (n *ClusterNode) primary() string {
	if m := n.member(n.ID); len(m) > 3 && m[3] != "-" {
		return m[3]
	}
	return ""
}

// owner is the id of the slot's owner as the node sees it.
func (n *ClusterNode) owner(slot int) string {
	for line := range strings.Lines(n.nodes()) {
		words := strings.Fields(line)
		for _, span := range words[min(8, len(words)):] {
			from, to, ranged := strings.Cut(span, "-")
			first, err := strconv.Atoi(from)
			last := first
			if ranged {
				last, _ = strconv.Atoi(to)
			}
			if err == nil && first <= slot && slot <= last {
				return words[0]
			}
		}
	}
	return ""
}

func withPort(port int) RedisOption {
	return func(r *Redis) { r.Addr, r.Port = loopback(port), port }
}

// busOffset is how far above its port a node's cluster bus is.
const busOffset = 10000

func portOf(addr string) string {
	_, port, _ := strings.Cut(addr, ":")
	return port
}

// freeClusterPort is a free port whose cluster bus, 10000 above, is free as well.
func freeClusterPort(tb testing.TB) int {
	tb.Helper()
	for {
		port := FreePort(tb)
		if port+busOffset > lastPort {
			continue
		}
		if entry := claim(port + busOffset); entry != nil {
			tb.Cleanup(func() { _ = entry.Close() })
			return port
		}
	}
}
