//go:build integration

package integration

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Two proxies, eight owners, and a cluster whose leader is killed, again and again. Case 39.
func TestNothingIsLostWhenEtcdLosesItsLeader(t *testing.T) {
	t.Parallel()
	const owners, kills, each = 8, 3, 25
	cluster := harness.StartEtcd(t, 3)
	server := harness.StartRedis(t)
	locks := fmt.Sprintf("lock:\n  provider: etcd\n  etcd:\n    endpoints: [%q, %q, %q]\n    ttl: 5s\n    request_timeout: 1s\n",
		cluster.Members[0].Addr, cluster.Members[1].Addr, cluster.Members[2].Addr)
	var proxies []*harness.Proxy
	for _, name := range []string{"one", "two"} {
		p := harness.StartProxy(t, harness.ProxyOptions{Name: name, Redis: server, Admin: true, ConfigYAML: locks + guarding("wait: 5s")})
		harness.Eventually(t, 0, func() bool { return isReady(p) }, "the proxy is ready")
		proxies = append(proxies, p)
	}

	var written atomic.Int64
	var over atomic.Bool
	updates := make([]struct{ acknowledged, unknown []string }, owners)
	var work sync.WaitGroup
	for i := range owners {
		c, _ := connect(t, fmt.Sprint(i), proxies[i%2].Addr)
		work.Go(func() {
			for n := 0; !over.Load(); n++ {
				text := fmt.Sprintf("%d.%d ", i, n)
				switch word := c.tries("ctx:s", text); word {
				case "":
					updates[i].acknowledged = append(updates[i].acknowledged, text)
					written.Add(1)
				case "FENCEUNKNOWN":
					updates[i].unknown = append(updates[i].unknown, text)
				case "FENCED", "LOCKED", "FENCEDOWN": // nothing was written
				default:
					t.Errorf("client %d hears %s", i, word)
					return
				}
			}
		})
	}
	grants := recordOf(t, server, "ctx:s")
	newest := uint64(0)
	progress := func(when string) {
		t.Helper()
		before := written.Load()
		harness.Eventually(t, time.Minute, func() bool {
			grant := grants.grant()
			if grant < newest {
				t.Fatalf("grant %d after grant %d %s", grant, newest, when)
			}
			newest = grant
			return written.Load() >= before+each
		}, "updates are written "+when)
	}
	progress("before anything happens")
	for range kills {
		leader := cluster.Leader()
		leader.Kill()
		progress("without the leader")
		leader.Restart()
		progress("with all members again")
	}
	over.Store(true)
	work.Wait()

	value, err := server.Client().Get(t.Context(), "ctx:s").Result()
	if err != nil {
		t.Fatal(err)
	}
	for i := range updates {
		for _, text := range updates[i].acknowledged {
			if n := strings.Count(" "+value, " "+text); n != 1 {
				t.Errorf("update %sis there %d times", text, n)
			}
		}
		for _, text := range updates[i].unknown {
			if n := strings.Count(" "+value, " "+text); n > 1 {
				t.Errorf("update %sis there %d times", text, n)
			}
		}
	}
}

// tries is one read-modify-write. It returns the first word of a refusal, or "".
func (p *party) tries(key, text string) string {
	word := func(args ...string) (string, string) {
		p.write(args...)
		reply, err := p.read()
		if err != nil {
			return err.Error(), ""
		}
		if refusal, ok := reply.(harness.ReplyError); ok {
			word, _, _ := strings.Cut(string(refusal), " ")
			return word, ""
		}
		value, _ := reply.(string)
		return "", value
	}
	refused, was := word("GET", key)
	if refused == "" {
		refused, _ = word("SET", key, was+text)
	}
	return refused
}
