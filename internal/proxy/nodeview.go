package proxy

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // a name of the length that Redis's have
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
	"github.com/fence-proxy/fence-proxy/internal/slot"
)

// A proxy may show itself as a Redis Cluster of one node that has all slots, whatever is behind it, so that clients for clusters
// work. What they ask of the cluster is answered here, and never reaches Redis.

// aboutNodes reports whether a command asks about the cluster.
func aboutNodes(args [][]byte) bool {
	switch len(args[0]) {
	case 4:
		return isWord(args[0], "INFO")
	case 6:
		return isWord(args[0], "ASKING")
	case 7:
		return isWord(args[0], "CLUSTER")
	case 8:
		return isWord(args[0], "READONLY")
	case 9:
		return isWord(args[0], "READWRITE")
	}
	return false
}

// asNode answers what a client for clusters asks.
func (c *client) asNode(args [][]byte, raw []byte) error {
	switch {
	case isWord(args[0], "INFO"):
		return c.infoOfNode(raw)
	case !isWord(args[0], "CLUSTER"):
		return c.local([]byte("+OK\r\n"))
	case len(args) == 1:
		return c.local(resp.AppendError(nil, "ERR wrong number of arguments for 'cluster' command"))
	}
	n, err := c.node()
	if err != nil {
		return c.local(resp.AppendError(nil, "ERR fence-proxy: "+err.Error()))
	}
	return c.local(n.answer(args, c.state.proto == 3))
}

// infoOfNode passes INFO, and has it say that there is a cluster.
func (c *client) infoOfNode(raw []byte) error {
	if err := c.link(); err != nil {
		return c.broken(err)
	}
	x, err := c.sync(raw, false)
	if err != nil {
		return err
	}
	frame := x.Frame(0)
	v, _, err := resp.ParseValue(frame)
	if err != nil || v.Type != '$' && v.Type != '=' || v.Null {
		return c.local(frame)
	}
	text := strings.NewReplacer("redis_mode:standalone\r\n", "redis_mode:cluster\r\n", "cluster_enabled:0\r\n", "cluster_enabled:1\r\n").Replace(string(v.Str))
	out := resp.AppendBulkString(nil, text)
	out[0] = v.Type
	return c.local(out)
}

// node is the proxy as a client sees it.
type node struct {
	host string
	port int
	id   string
}

// node returns the address at which the client has reached the proxy.
func (c *client) node() (node, error) {
	host, port, err := net.SplitHostPort(c.nc.LocalAddr().String())
	if err != nil {
		return node{}, fmt.Errorf("a cluster's nodes have addresses, and this connection is over a unix socket: use a client for a single Redis")
	}
	n := node{host: host}
	n.port, _ = strconv.Atoi(port)
	sum := sha1.Sum([]byte(net.JoinHostPort(host, port))) //nolint:gosec // a name
	n.id = hex.EncodeToString(sum[:])
	return n, nil
}

// answer answers CLUSTER.
func (n node) answer(args [][]byte, resp3 bool) []byte {
	switch sub := args[1]; {
	case command.IsWord(sub, "SLOTS"):
		out := resp.AppendArray(nil, 1)
		out = resp.AppendArray(out, 3)
		out = resp.AppendInt(out, 0)
		out = resp.AppendInt(out, slot.Count-1)
		out = resp.AppendArray(out, 4)
		out = resp.AppendBulkString(out, n.host)
		out = resp.AppendInt(out, int64(n.port))
		out = resp.AppendBulkString(out, n.id)
		return resp.AppendArray(out, 0)
	case command.IsWord(sub, "SHARDS"):
		return n.shards(resp3)
	case command.IsWord(sub, "NODES"):
		return resp.AppendBulkString(nil, fmt.Sprintf("%s %s@%d myself,master - 0 0 1 connected 0-%d\n",
			n.id, net.JoinHostPort(n.host, strconv.Itoa(n.port)), n.port+10000, slot.Count-1))
	case command.IsWord(sub, "INFO"):
		return resp.AppendBulkString(nil, fmt.Sprintf("cluster_state:ok\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\ncluster_slots_pfail:0\r\n"+
			"cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n", slot.Count, slot.Count))
	case command.IsWord(sub, "MYID"):
		return resp.AppendBulkString(nil, n.id)
	case command.IsWord(sub, "MYSHARDID"):
		return resp.AppendBulkString(nil, n.id)
	case command.IsWord(sub, "REPLICAS") || command.IsWord(sub, "SLAVES") || command.IsWord(sub, "LINKS"):
		return resp.AppendArray(nil, 0)
	case command.IsWord(sub, "KEYSLOT") && len(args) == 3:
		return resp.AppendInt(nil, int64(slot.Of(args[2])))
	}
	name := strings.ToUpper(string(bytes.ToValidUTF8(args[1][:min(len(args[1]), 32)], []byte("?"))))
	return resp.AppendError(nil, "ERR fence-proxy: CLUSTER "+name+" can't be had: the proxy shows itself as a cluster of one node (upstream.cluster: passthrough), and this is about others")
}

func (n node) shards(resp3 bool) []byte {
	out := resp.AppendArray(nil, 1)
	out = resp.AppendMap(out, 2, resp3)
	out = resp.AppendBulkString(out, "slots")
	out = resp.AppendArray(out, 2)
	out = resp.AppendInt(out, 0)
	out = resp.AppendInt(out, slot.Count-1)
	out = resp.AppendBulkString(out, "nodes")
	out = resp.AppendArray(out, 1)
	out = resp.AppendMap(out, 7, resp3)
	for _, pair := range [][2]string{{"id", n.id}, {"ip", n.host}, {"endpoint", n.host}, {"role", "master"}, {"health", "online"}} {
		out = resp.AppendBulkString(out, pair[0])
		out = resp.AppendBulkString(out, pair[1])
	}
	out = resp.AppendInt(resp.AppendBulkString(out, "port"), int64(n.port))
	return resp.AppendInt(resp.AppendBulkString(out, "replication-offset"), 0)
}
