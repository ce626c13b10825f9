//go:build integration

package cluster_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/cluster"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// elsewhere is a primary that has not got a key.
func elsewhere(of *harness.Cluster, key string) *harness.ClusterNode {
	for _, n := range of.Nodes {
		if n != of.Of(key) {
			return n
		}
	}
	return nil
}

func TestASlotMovesUnderAPipelineWhoseOrderStays(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	const key = "{k}list"
	slot := of.Slot(key)
	l := dial(t, c)
	var stop atomic.Bool
	var sent, answered atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; !stop.Load(); n++ {
			var out []byte
			for range 50 {
				out = resp.AppendCommandStrings(out, "RPUSH", key, fmt.Sprint(n))
				out = resp.AppendCommandStrings(out, "INCR", fmt.Sprint("other", n%100))
				n++
			}
			if _, err := l.Write(out); err != nil {
				return
			}
			sent.Add(50)
		}
		_, _ = l.Write(resp.AppendCommandStrings(nil, "ECHO", "end"))
	})
	wg.Go(func() {
		defer l.Close() // the other stops, too
		for n := 1; ; n++ {
			got, err := l.reply()
			if err != nil {
				t.Errorf("RPUSH %d: %v", n, err)
				return
			}
			if got == "$3\r\nend\r\n" {
				return
			}
			if got != fmt.Sprintf(":%d\r\n", n) {
				t.Errorf("RPUSH %d: %q", n, got)
				return
			}
			if got, err := l.reply(); !strings.HasPrefix(got, ":") {
				t.Errorf("INCR %d: %q, %v", n, got, err)
				return
			}
			answered.Store(int64(n))
		}
	})
	for range 6 {
		at := sent.Load() // what was on its way to a node, of a slot that comes back to it meanwhile, is carried out there
		harness.Eventually(t, 0, func() bool { return answered.Load() > at || t.Failed() }, "the pipeline goes on")
		of.Migrate(slot, elsewhere(of, key))
	}
	stop.Store(true)
	wg.Wait()
	if t.Failed() {
		return
	}
	values, err := client(t, c).LRange(t.Context(), key, 0, -1).Result()
	if err != nil || len(values) != int(sent.Load()) {
		t.Fatalf("%d elements, %v, want %d", len(values), err, sent.Load())
	}
	last := -1
	for i, v := range values {
		var n int
		if _, err := fmt.Sscan(v, &n); err != nil || n <= last {
			t.Fatalf("element %d is %q, after %d", i, v, last)
		}
		last = n
	}
}

// In the middle of a move, keys that have gone are asked for at the other node, but not by a transaction: what it writes
// there of keys that have not gone yet would be overwritten when they come.
func TestInTheMiddleOfAMove(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	l := dial(t, c)
	l.expect("MSET {k}a 1 {k}b 2", ok)
	slot, to := of.Slot("{k}a"), elsewhere(of, "{k}a")
	of.BeginMigration(slot, to)
	of.MoveKeys(slot, to, "{k}a")
	const onItsWay = "-TRYAGAIN fence-proxy: the slot is on its way to another node\r\n"
	l.expect(
		"GET {k}a", "$1\r\n1\r\n", "GET {k}b", "$1\r\n2\r\n", "INCR {k}a", ":2\r\n", "SET {k}new x", ok, "GET {k}new", "$1\r\nx\r\n",
		"MULTI", ok, "INCR {k}a", queued, "SET {k}b lost", queued, "EXEC", onItsWay,
		"MULTI", ok, "INCR {k}b", queued, "EXEC", "*1\r\n:3\r\n",
	)
	t.Run("a WATCH stands at a node that its key leaves", func(t *testing.T) {
		l := dial(t, c)
		l.expect("SET {k}w 1", ok)
		of.MoveKeys(slot, to) // of no keys: it was made at the other node
		l.expect("WATCH {k}b", ok, "GET {k}b", "$1\r\n3\r\n")
		of.MoveKeys(slot, to, "{k}b")
		l.expect("MULTI", ok, "SET {k}b 9", queued, "EXEC", "*-1\r\n", "GET {k}b", "$1\r\n3\r\n",
			"WATCH {k}b", onItsWay)
	})
	t.Run("keys of both nodes", func(t *testing.T) {
		l := dial(t, c)
		done := make(chan string)
		l.send("MGET {k}a {k}nowhere")
		go func() { done <- l.read() }()
		select {
		case got := <-done:
			if !strings.HasPrefix(got, "-TRYAGAIN") {
				t.Errorf("at once: %q", got)
			}
		case <-time.After(50 * time.Millisecond): // it is tried again
			of.EndMigration(slot, to)
			if got := <-done; got != "*2\r\n$1\r\n2\r\n$-1\r\n" {
				t.Errorf("once the slot has moved: %q", got)
			}
		}
	})
	harness.Eventually(t, 0, func() bool { // the first one may find that the slot has moved since the front has heard of it
		l.expect("WATCH {k}b", ok, "MULTI", ok, "SET {k}b 9", queued)
		l.send("EXEC")
		return l.read() == "*1\r\n+OK\r\n"
	}, "a transaction is carried out once the slot has moved")
	l.expect("GET {k}b", "$1\r\n9\r\n")
}

func TestWhatCannotBeHadIsSaidInTheEnd(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 0)
	c := open(t, of)
	l := dial(t, c)
	l.expect("SET {k}a 1", ok)
	slot, to := of.Slot("{k}a"), elsewhere(of, "{k}a")
	of.BeginMigration(slot, to)
	of.MoveKeys(slot, to, "{k}a")
	began := time.Now()
	l.expect("MGET {k}a {k}nowhere", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "GET {k}a", "$1\r\n1\r\n")
	if took := time.Since(began); took < cluster.Patience {
		t.Errorf("it was said after %v", took)
	}
	of.EndMigration(slot, to)

	dead := of.Of("x")
	l = dial(t, c)
	dead.Kill()
	l.send("GET x", "PING")
	if got := l.read(); !strings.HasPrefix(got, "-CLUSTERDOWN ") {
		t.Errorf("of a node that is gone: %q", got)
	}
	l.read() // from whichever node
	began = time.Now()
	l.send("GET x")
	if got := l.read(); !strings.HasPrefix(got, "-CLUSTERDOWN ") {
		t.Errorf("the next one: %q", got)
	}
	if took := time.Since(began); took > cluster.Patience {
		t.Errorf("the next one heard it after %v", took)
	}
}

// Nothing is sent twice, and nothing that was acknowledged is lost, when a primary is killed and its replica, which is in step,
// takes over.
func TestANodeIsKilledUnderCommands(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 1)
	c := open(t, of)
	const clients = 8
	var sent, acknowledged [clients]atomic.Int64
	var stop atomic.Bool
	var resumed [clients]atomic.Bool
	var killed atomic.Bool
	var wg sync.WaitGroup
	dead := of.Of("{x}0")
	for i := range clients {
		wg.Go(func() {
			var l *line
			for !stop.Load() {
				if l == nil {
					nc, err := c.Dial(t.Context(), "", "")
					if err != nil {
						t.Error(err)
						return
					}
					l = newLine(t, nc)
					t.Cleanup(func() { _ = nc.Close() })
				}
				_, err := l.Write(resp.AppendCommandStrings(nil, "INCR", fmt.Sprintf("{x}%d", i)))
				if err == nil {
					sent[i].Add(1)
					var got string
					if got, err = l.reply(); err == nil && got[0] == ':' {
						acknowledged[i].Add(1)
						resumed[i].Store(killed.Load())
						continue
					} else if err == nil {
						sent[i].Add(-1) // it was refused
						if !strings.HasPrefix(got, "-CLUSTERDOWN") {
							t.Errorf("%q", got)
						}
						continue
					}
				}
				_ = l.Close()
				l = nil
			}
		})
	}
	harness.Eventually(t, 0, func() bool { return acknowledged[0].Load() > 100 }, "commands are carried out")
	if err := dead.Client().Do(t.Context(), "CONFIG", "SET", "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	dead.Kill()
	killed.Store(true)
	harness.Eventually(t, 0, func() bool {
		for i := range resumed {
			if !resumed[i].Load() {
				return false
			}
		}
		return true
	}, "all clients go on at the replica")
	stop.Store(true)
	wg.Wait()
	lost := int64(0)
	for i := range clients {
		n, err := client(t, c).Get(t.Context(), fmt.Sprintf("{x}%d", i)).Int64()
		if err != nil || n > sent[i].Load() {
			t.Errorf("client %d: %d were carried out of %d (%v)", i, n, sent[i].Load(), err)
		}
		lost += max(acknowledged[i].Load()-n, 0)
	}
	t.Logf("%d acknowledged commands were lost in the failover, as Redis's replication is asynchronous", lost)
}

// Whoever waits for a node that is frozen, and was replaced, is disconnected.
func TestAFrozenNodeThatWasReplacedKeepsNobody(t *testing.T) {
	t.Parallel()
	of := harness.StartCluster(t, 3, 1)
	c := open(t, of)
	l := dial(t, c)
	l.expect("SET x 1", ok, "WAIT 1 0", ":1\r\n") // so that the replica has it
	frozen := of.Of("x")
	frozen.Pause()
	l.send("GET x")
	l.closed()
	dial(t, c).expect("GET x", "$1\r\n1\r\n")
	frozen.Resume()
}
