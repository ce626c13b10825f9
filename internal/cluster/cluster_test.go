//go:build integration

package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/cluster"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// open opens the way to a cluster, for the duration of the test.
func open(t *testing.T, of *harness.Cluster) *cluster.Cluster {
	t.Helper()
	dialer := &net.Dialer{}
	return openBy(t, of, dialer.DialContext)
}

func openBy(t *testing.T, of *harness.Cluster, dial func(ctx context.Context, network, address string) (net.Conn, error)) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Open(t.Context(), cluster.Options{
		Seeds: of.Addrs(), Dial: dial, DialTimeout: 5 * time.Second, Log: slog.New(slog.DiscardHandler),
		Everywhere: func(channel []byte) bool { return strings.HasPrefix(string(channel), "fence-proxy:") },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// client is go-redis's, as of one Redis.
func client(t *testing.T, c *cluster.Cluster, edits ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Dialer: c.Dial, MaxRetries: -1, ReadTimeout: 20 * time.Second}
	for _, edit := range edits {
		edit(o)
	}
	r := redis.NewClient(o)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// line is a connection at the level of bytes.
type line struct {
	net.Conn
	in *bufio.Reader
	tb testing.TB
}

func dial(t *testing.T, c *cluster.Cluster) *line {
	t.Helper()
	nc, err := c.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return newLine(t, nc)
}

func newLine(t *testing.T, nc net.Conn) *line {
	t.Helper()
	return &line{nc, bufio.NewReaderSize(nc, 64<<10), t}
}

// send sends commands in one piece.
func (l *line) send(commands ...string) {
	l.tb.Helper()
	var out []byte
	for _, c := range commands {
		out = resp.AppendCommandStrings(out, strings.Fields(c)...)
	}
	if _, err := l.Write(out); err != nil {
		l.tb.Fatal(err)
	}
}

// read reads a reply.
func (l *line) read() string {
	l.tb.Helper()
	reply, err := l.reply()
	if err != nil {
		l.tb.Fatalf("read a reply: %v", err)
	}
	return reply
}

func (l *line) reply() (string, error) {
	_ = l.SetReadDeadline(time.Now().Add(30 * time.Second))
	var f resp.Framer
	var frame []byte
	for {
		b, err := l.in.ReadByte()
		if err != nil {
			return string(frame), err
		}
		frame = append(frame, b)
		if _, done, err := f.Scan(frame[len(frame)-1:]); done || err != nil {
			return string(frame), err
		}
	}
}

// expect sends commands in one piece, and compares the replies.
func (l *line) expect(pairs ...string) {
	l.tb.Helper()
	var commands []string
	for i := 0; i < len(pairs); i += 2 {
		commands = append(commands, pairs[i])
	}
	l.send(commands...)
	for i := 0; i < len(pairs); i += 2 {
		if got := l.read(); got != pairs[i+1] {
			l.tb.Errorf("%s: %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

// closed waits for the end of the connection.
func (l *line) closed() {
	l.tb.Helper()
	if got, err := l.reply(); err != io.EOF { //nolint:errorlint // as it comes
		l.tb.Errorf("%q, %v, want the end", got, err)
	}
}

func TestRepliesComeInTheOrderOfTheirRequestsWhicheverNodeAnswersFirst(t *testing.T) {
	t.Parallel()
	c := open(t, harness.StartCluster(t, 3, 0))
	l := dial(t, c)
	const n = 100_000
	go func() {
		var out []byte
		for i := range n {
			out = resp.AppendCommandStrings(out, "SET", fmt.Sprint("k", i%1000), fmt.Sprint(i))
			out = resp.AppendCommandStrings(out, "GET", fmt.Sprint("k", i%1000))
			if len(out) > 1<<20 {
				_, _ = l.Write(out)
				out = out[:0]
			}
		}
		_, _ = l.Write(out)
	}()
	for i := range n {
		if got := l.read(); got != "+OK\r\n" {
			t.Fatalf("SET %d: %q", i, got)
		}
		value := fmt.Sprint(i)
		if got, want := l.read(), fmt.Sprintf("$%d\r\n%s\r\n", len(value), value); got != want {
			t.Fatalf("GET %d: %q, want %q", i, got, want)
		}
	}
}

func TestKeysOfSeveralNodesAreReadAndWrittenTogether(t *testing.T) {
	t.Parallel()
	c := open(t, harness.StartCluster(t, 3, 0))
	dial(t, c).expect(
		"MSET a 1 b 2 c 3 d 4", "+OK\r\n",
		"MGET a nosuch c b d a", "*6\r\n$1\r\n1\r\n$-1\r\n$1\r\n3\r\n$1\r\n2\r\n$1\r\n4\r\n$1\r\n1\r\n",
		"EXISTS a b c d e a", ":5\r\n",
		"TOUCH a b z", ":2\r\n",
		"DEL a b nosuch", ":2\r\n",
		"UNLINK c d", ":2\r\n",
		"EXISTS a b c d", ":0\r\n",
		"LPUSH list x", ":1\r\n",
		"MSET list", "-ERR wrong number of arguments for 'mset' command\r\n",
		"MSET a 1 b", "-ERR wrong number of arguments for 'mset' command\r\n",
		"MGET list a b", "*3\r\n$-1\r\n$-1\r\n$-1\r\n",
		"RENAME list other", "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
		"SINTER a b", "-CROSSSLOT Keys in request don't hash to the same slot\r\n",
		"GET", "-ERR wrong number of arguments for 'get' command\r\n",
		"NOSUCH x", "-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n",
		"SELECT 0", "+OK\r\n",
		"SELECT 1", "-ERR SELECT is not allowed in cluster mode\r\n",
		"CLUSTER SLOTS", "-ERR This instance has cluster support disabled\r\n",
		"DBSIZE", ":1\r\n",
		"FLUSHALL", "+OK\r\n",
		"DBSIZE", ":0\r\n",
		"PING", "+PONG\r\n",
	)
}

func TestAnOrdinaryClientFindsOneRedis(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	for _, protocol := range []int{2, 3} {
		ctx := context.Background()
		r := client(t, c, func(o *redis.Options) { o.Protocol = protocol })
		for i := range 300 {
			if err := r.Set(ctx, fmt.Sprint("k", i), i, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := r.DBSize(ctx).Result(); n != 300 || err != nil {
			t.Errorf("%d keys, %v", n, err)
		}
		found := map[string]bool{}
		for all := r.Scan(ctx, 0, "k*", 20).Iterator(); all.Next(ctx); {
			found[all.Val()] = true
		}
		if len(found) != 300 {
			t.Errorf("SCAN finds %d keys", len(found))
		}
		if keys, err := r.Keys(ctx, "*").Result(); len(keys) != 300 || err != nil {
			t.Errorf("KEYS finds %d keys (%v)", len(keys), err)
		}
		if key, err := r.RandomKey(ctx).Result(); !found[key] || err != nil {
			t.Errorf("RANDOMKEY: %q, %v", key, err)
		}
		if info, err := r.Info(ctx).Result(); !strings.Contains(info, "redis_mode:standalone") || strings.Contains(info, "cluster_enabled:1") {
			t.Errorf("INFO tells of a cluster (%v)", err)
		}
		if err := r.FlushDB(ctx).Err(); err != nil {
			t.Error(err)
		}
	}
	for _, n := range of.Nodes {
		if size, _ := n.Client().DBSize(t.Context()).Result(); size != 0 {
			t.Errorf("%s has %d keys after FLUSHDB", n.Addr, size)
		}
	}
}
