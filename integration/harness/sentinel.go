package harness

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// SentinelName is the name under which a SentinelSet's primary is known.
const SentinelName = "mymaster"

// The servers' own connections come from addresses of their own, so that a node's relay can tell them from clients'.
const (
	replicaSource  = "127.0.0.2"
	sentinelSource = "127.0.0.3"
)

// SentinelSet is a primary with two replicas, watched by three Sentinels, all on loopback. Everybody, the servers
// themselves too, knows a node by its relay's address:
//
//	proxies 127.0.0.1 ──┐
//	replicas 127.0.0.2 ─┼─▶ node.Relay ──▶ node.Redis
//	Sentinels 127.0.0.3 ┘
type SentinelSet struct {
	Nodes     []*SentinelNode // the first is the primary at the start
	Sentinels []*Redis

	tb       testing.TB
	password string
	options  []RedisOption
	secure   []RedisOption // of the Sentinels; nil: without TLS
	asked    map[*Redis]*redis.SentinelClient
}

// SentinelNode is one of the servers that hold data.
type SentinelNode struct {
	*Redis

	// Addr is where everybody reaches it: the relay's address.
	Addr  string
	Relay *Relay

	port   string // of Addr
	direct *redis.Client
}

// SentinelOption changes how [StartSentinels] starts a set.
type SentinelOption func(*SentinelSet)

// WithNodeOptions adds options for all nodes that hold data.
func WithNodeOptions(options ...RedisOption) SentinelOption {
	return func(s *SentinelSet) { s.options = append(s.options, options...) }
}

// WithSentinelPassword makes the Sentinels ask for a password.
func WithSentinelPassword(password string) SentinelOption {
	return func(s *SentinelSet) { s.password = password }
}

// WithSentinelTLS makes all servers speak TLS with everybody.
func WithSentinelTLS(ca *Authority) SentinelOption {
	return func(s *SentinelSet) {
		s.secure = []RedisOption{WithTLS(ca), WithArgs("--tls-replication", "yes")}
		s.options = append(s.options, s.secure...)
	}
}

const (
	downAfter       = time.Second     // that a Sentinel takes a silent node for down
	failoverTimeout = 2 * time.Second // between two attempts, and for a failover to proceed
)

// StartSentinels starts a set and waits until it is healthy.
func StartSentinels(tb testing.TB, options ...SentinelOption) *SentinelSet {
	tb.Helper()
	s := &SentinelSet{tb: tb, asked: map[*Redis]*redis.SentinelClient{}}
	for _, option := range options {
		option(s)
	}
	for range 3 {
		s.startNode()
	}
	for range 3 {
		s.startSentinel()
	}
	s.WaitHealthy()
	return s
}

// URL is the set as an upstream URL.
func (s *SentinelSet) URL() string {
	addrs, scheme := make([]string, len(s.Sentinels)), "redis+sentinel://"
	for i, sentinel := range s.Sentinels {
		if addrs[i] = sentinel.Addr; sentinel.Secure != "" {
			addrs[i], scheme = sentinel.Secure, "rediss+sentinel://"
		}
	}
	return scheme + strings.Join(addrs, ",") + "/" + SentinelName
}

func (s *SentinelSet) startNode() {
	s.tb.Helper()
	var lines []string
	if len(s.Nodes) > 0 {
		lines = append(lines, "replicaof 127.0.0.1 "+s.Nodes[0].port)
	}
	port := FreePort(s.tb) // of the relay, which the server has to announce
	options := append([]RedisOption{withFile(s.tb, lines...), withSource(s.tb, replicaSource), WithArgs(
		"--replica-announce-ip", "127.0.0.1", "--replica-announce-port", fmt.Sprint(port),
		"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--repl-timeout", "5",
	)}, s.options...)
	server := StartRedis(s.tb, options...)
	way := server.Addr
	if server.Secure != "" {
		way = server.Secure
	}
	n := &SentinelNode{Redis: server, Addr: loopback(port), Relay: startRelayAt(s.tb, loopback(port), way), port: fmt.Sprint(port)}
	n.direct = server.Client(impatient)
	s.Nodes = append(s.Nodes, n)
}

func (s *SentinelSet) startSentinel() {
	s.tb.Helper()
	lines := []string{
		"sentinel announce-ip 127.0.0.1",
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2", SentinelName, s.Nodes[0].port),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", SentinelName, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", SentinelName, failoverTimeout.Milliseconds()),
		fmt.Sprintf("sentinel parallel-syncs %s 2", SentinelName),
	}
	if p := s.Nodes[0].password; p != "" {
		lines = append(lines, fmt.Sprintf("sentinel auth-pass %s %s", SentinelName, p))
	}
	for _, n := range s.Nodes[1:] {
		lines = append(lines, fmt.Sprintf("sentinel known-replica %s 127.0.0.1 %s", SentinelName, n.port))
	}
	if s.password != "" && !before7(s.tb) { // which takes its own
		lines = append(lines, "sentinel sentinel-pass "+s.password)
	}
	options := append([]RedisOption{withFile(s.tb, lines...), withSource(s.tb, sentinelSource), WithArgs("--sentinel")}, s.secure...)
	if s.password != "" {
		options = append(options, WithPassword(s.password))
	}
	s.Sentinels = append(s.Sentinels, StartRedis(s.tb, options...))
	s.hasten(s.Sentinels[len(s.Sentinels)-1])
}

// hasten has a Sentinel look at what it watches more often than every ten seconds, if it is of a version that can.
func (s *SentinelSet) hasten(sentinel *Redis) {
	s.tb.Helper()
	if before7(s.tb) {
		return
	}
	err := sentinel.Client().Do(s.tb.Context(), "SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PUBLISH-PERIOD", "300", "ASK-PERIOD", "200").Err()
	if err != nil {
		s.tb.Fatalf("hasten a Sentinel: %v", err)
	}
}

// RestartSentinel kills a Sentinel if it still runs and starts it again with what it knew.
func (s *SentinelSet) RestartSentinel(i int) {
	s.tb.Helper()
	s.Sentinels[i].Restart()
	s.hasten(s.Sentinels[i])
}

// Primary is the node that the Sentinels name, by a majority of those that run.
func (s *SentinelSet) Primary() *SentinelNode {
	s.tb.Helper()
	var found *SentinelNode
	Eventually(s.tb, 0, func() bool {
		found = s.primary()
		return found != nil
	}, "the Sentinels agree on a primary")
	return found
}

func (s *SentinelSet) primary() *SentinelNode {
	votes := map[string]int{}
	running := 0
	for _, sentinel := range s.Sentinels {
		if sentinel.exited() {
			continue
		}
		running++
		addr, err := s.sentinel(sentinel).GetMasterAddrByName(s.tb.Context(), SentinelName).Result()
		if err == nil && len(addr) == 2 {
			votes[addr[1]]++
		}
	}
	for _, n := range s.Nodes {
		if votes[n.port]*2 > running {
			return n
		}
	}
	return nil
}

// Replicas are the nodes that are not the primary.
func (s *SentinelSet) Replicas() []*SentinelNode {
	s.tb.Helper()
	primary := s.Primary()
	var replicas []*SentinelNode
	for _, n := range s.Nodes {
		if n != primary {
			replicas = append(replicas, n)
		}
	}
	return replicas
}

// Failover has the Sentinels make a replica the primary (SENTINEL FAILOVER), and returns the new primary when it is
// one and they say so.
func (s *SentinelSet) Failover() *SentinelNode {
	s.tb.Helper()
	old, first := s.Primary(), s.sentinel(s.Sentinels[0])
	Eventually(s.tb, 2*patience, func() bool {
		addr, err := first.GetMasterAddrByName(s.tb.Context(), SentinelName).Result()
		if err == nil && len(addr) == 2 && addr[1] != old.port {
			return true
		}
		_ = first.Failover(s.tb.Context(), SentinelName).Err() // INPROG while there is one, NOGOODSLAVE for a moment; one that was begun may be given up
		return false
	}, "SENTINEL FAILOVER is carried out")
	return s.WaitOther(old)
}

// WaitOther waits until the Sentinels name another primary than old, and it is one.
func (s *SentinelSet) WaitOther(old *SentinelNode) *SentinelNode {
	s.tb.Helper()
	var found *SentinelNode
	Eventually(s.tb, 2*patience, func() bool {
		found = s.primary()
		return found != nil && found != old && found.role() == "master"
	}, "the Sentinels name another primary")
	return found
}

// WaitHealthy waits until every Sentinel knows the two others and names the same primary, with all other nodes that
// run in sync with it.
func (s *SentinelSet) WaitHealthy() {
	s.tb.Helper()
	Eventually(s.tb, 2*patience, func() bool {
		primary := s.primary()
		return primary != nil && s.healthy(primary)
	}, "the set is healthy")
}

func (s *SentinelSet) healthy(primary *SentinelNode) bool {
	ctx, replicas := s.tb.Context(), 0
	for _, n := range s.Nodes {
		switch {
		case n == primary || n.exited():
		case !strings.Contains(n.info(), "master_port:"+primary.port+"\r\nmaster_link_status:up"):
			return false
		default:
			replicas++
		}
	}
	for _, sentinel := range s.Sentinels {
		if sentinel.exited() {
			continue
		}
		about, err := s.sentinel(sentinel).Master(ctx, SentinelName).Result()
		if err != nil || about["port"] != primary.port || about["flags"] != "master" || about["num-other-sentinels"] != fmt.Sprint(len(s.Sentinels)-1) {
			return false
		}
		known, err := s.sentinel(sentinel).Replicas(ctx, SentinelName).Result()
		if err != nil {
			return false
		}
		good := 0
		for _, r := range known {
			if r["flags"] == "slave" && r["master-link-status"] == "ok" && r["master-port"] == primary.port {
				good++
			}
		}
		if good < replicas {
			return false
		}
	}
	return primary.role() == "master"
}

// sentinel is a client of a Sentinel.
func (s *SentinelSet) sentinel(of *Redis) *redis.SentinelClient {
	c := s.asked[of]
	if c == nil {
		o := &redis.Options{Addr: of.Addr, Password: s.password}
		impatient(o)
		c = redis.NewSentinelClient(o)
		s.asked[of] = c
		s.tb.Cleanup(func() { _ = c.Close() })
	}
	return c
}

// impatient has a client ask once, and not wait for long.
func impatient(o *redis.Options) {
	o.MaxRetries, o.PoolSize, o.DialTimeout, o.ReadTimeout = -1, 1, time.Second, time.Second
}

// CutReplicas cuts the node off from its replicas; Sentinels and clients still reach it. Until [SentinelNode.Join].
func (n *SentinelNode) CutReplicas() { n.Relay.Bar(replicaSource) }

// Isolate cuts the node off from replicas and Sentinels; clients still reach it. Until [SentinelNode.Join].
func (n *SentinelNode) Isolate() { n.Relay.Bar(replicaSource, sentinelSource) }

// Join ends CutReplicas and Isolate.
func (n *SentinelNode) Join() { n.Relay.Admit() }

// role is the node's first word to ROLE, "" if it does not answer.
func (n *SentinelNode) role() string {
	role, err := n.direct.Do(n.tb.Context(), "ROLE").Slice()
	if err != nil || len(role) == 0 {
		return ""
	}
	return fmt.Sprint(role[0])
}

func (n *SentinelNode) info() string {
	return n.direct.Info(n.tb.Context(), "replication").Val()
}
