//go:build integration

package clients

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// startProxy starts a proxy with a rule for every end that a guarded command can come to.
func startProxy(t *testing.T, server *harness.Redis) *harness.Proxy {
	t.Helper()
	return harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: `
rules:
  - {name: waits, prefix: "ctx:", mode: lock, wait: 60s}
  - {name: refuses, prefix: "busy:", mode: lock, wait: 0s}
  - {name: tries-again, prefix: "again:", mode: lock, wait: 0s, locked_error: TRYAGAIN}
  - {name: goes-stale, prefix: "stale:", mode: lock, wait: 60s, idle: 100ms}
`})
}

// want fails the test unless every step of the task came to this.
func (r report) want(t *testing.T, steps map[string]any) {
	t.Helper()
	for name, want := range steps {
		switch got, taken := r[name]; {
		case !taken:
			t.Errorf("%s: not taken", name)
		case got.Error != "":
			t.Errorf("%s: %s", name, got.Error)
		case !reflect.DeepEqual(got.Value, decoded(want)):
			t.Errorf("%s: got %.300v, want %.300v", name, got.Value, want)
		}
	}
	for name := range r {
		if _, known := steps[name]; !known {
			t.Errorf("%s: nobody knows this step", name)
		}
	}
}

// ordinaryUse is what the steps of ordinary use come to.
var ordinaryUse = map[string]any{
	"connect with defaults":          true,
	"connect with name and database": []any{"worker-1", 2},
	"select":                         []any{"in 2", nil},
	"pipeline":                       1000,
	"transaction":                    []any{true, 1, "v"},
	"watch":                          []any{2, "theirs, mine"},
	"publish and subscribe":          []any{[]any{1, 1}, []any{[]any{"news", "one"}, []any{"news:more", "two"}}},
	"blocking pop":                   []any{"jobs", "job"},
	"big value":                      []any{5 << 20, true},
	"binary value":                   hex.EncodeToString(everyByte()),
	"scan":                           500,
	"script":                         []any{1, 2, 3},
	"pool":                           0,
}

// What a client does in pipelines, in transactions and under WATCH is the same on guarded keys.
func TestOrdinaryUseOfGuardedKeysIsServedAsByRedis(t *testing.T) {
	t.Parallel()
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: `
rules:
  - {name: transactions, prefix: "transaction"}
  - {name: watches, prefix: "watched", mode: lock}
  - {name: pipelines, prefix: "pipeline:"}
`})
			c.does(t, "use", servers{proxy.Addr, server.Addr}).want(t, ordinaryUse)
		})
	}
}

// Case 46.
func TestOrdinaryUseIsServedAsByRedis(t *testing.T) {
	t.Parallel()
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := startProxy(t, server)
			c.does(t, "use", servers{proxy.Addr, server.Addr}).want(t, ordinaryUse)
		})
	}
}

// Cases 45, 46 and 48: what a client sends before its first command reaches Redis as it is sent,
// and the client goes on with what Redis answers.
func TestHandshakesReachRedisByteForByte(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			direct := harness.StartRelay(t, server.Addr, harness.WithCapture())
			behind := harness.StartRelay(t, server.Addr, harness.WithCapture())
			proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: behind.URL()})
			steps := map[string]any{"defaults": "defaults", "name and database": "name and database"}
			c.does(t, "handshake", servers{direct.Addr, server.Addr}).want(t, steps)
			c.does(t, "handshake", servers{proxy.Addr, server.Addr}).want(t, steps)
			for step := range steps {
				if got, want := handshake(t, behind, step), handshake(t, direct, step); got != want {
					t.Errorf("%s: Redis hears\n%q\nwant, as from the client itself,\n%q", step, got, want)
				}
			}
		})
	}
}

// handshake is what a connection sent up to the ECHO of this message.
func handshake(t *testing.T, relay *harness.Relay, message string) string {
	t.Helper()
	for _, connection := range relay.Connections() {
		before, _, found := strings.Cut(string(connection.Bytes[harness.ToServer]), "\r\n"+message+"\r\n")
		if found {
			return before
		}
	}
	t.Fatalf("no connection has sent ECHO %q", message)
	return ""
}

func TestClientsComeBackAfterTheirConnectionToRedisWasKilled(t *testing.T) {
	t.Parallel()
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := startProxy(t, server)
			c.does(t, "killed", servers{proxy.Addr, server.Addr}).want(t, map[string]any{
				"commands go on":      []any{"1", "1", 2, true},
				"subscriptions go on": "after",
				"refusals in between": []any{},
			})
		})
	}
}

func TestRefusalsAreTheClientsOrdinaryErrors(t *testing.T) {
	t.Parallel()
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := startProxy(t, server)
			r := c.does(t, "refusals", servers{proxy.Addr, server.Addr})
			locked := refusal{c.errorType, `LOCKED rule "refuses" session "busy:doc" is held by client `, "(holder)"}
			fenced := refusal{c.errorType, `FENCED rule "goes-stale" session "stale:doc": nothing was written: `, "Read again"}
			for step, wants := range map[string][]any{
				"locked": {locked, locked, "a"},
				"fenced": {fenced, "b", "b, a"},
			} {
				if r[step].Error != "" {
					t.Errorf("%s: %s", step, r[step].Error)
					continue
				}
				for i, want := range wants {
					got := r[step].Value.([]any)[i]
					if expected, ok := want.(refusal); ok && !expected.is(got) || !ok && got != want {
						t.Errorf("%s: got %v, want %v", step, got, want)
					}
				}
			}
		})
	}
}

// refusal is an error reply as a client's program must see it.
type refusal struct{ errorType, begins, contains string }

func (r refusal) is(seen any) bool {
	pair, _ := seen.([]any)
	if len(pair) != 2 {
		return false
	}
	text, _ := pair[1].(string)
	return pair[0] == r.errorType && strings.HasPrefix(text, r.begins) && strings.Contains(text, r.contains)
}

// Workers of all clients count in one JSON document, each in turns of a read and a write.
func TestWorkersOfAllClientsLoseNoIncrement(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	all := clients(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reports := make([]report, len(all))
	for _, err := range together(len(all), func(i int) (err error) {
		reports[i], err = all[i].do(ctx, "workers", servers{proxy.Addr, server.Addr})
		return err
	}) {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	counts, wantCounts := map[string]int{}, map[string]int{}
	for i, c := range all {
		reports[i].want(t, map[string]any{"increments": []any{}})
		for worker := range 8 {
			wantCounts[fmt.Sprintf("%s %d", c.name, worker)] = 20
		}
	}
	document := server.Client().Get(t.Context(), "ctx:doc").Val()
	if err := json.Unmarshal([]byte(document), &counts); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(counts, wantCounts) {
		t.Errorf("increments are lost: got %v, want 20 for each worker", counts)
	}
}

func TestGoRedisTriesAgainByItselfUntilTheHolderHasWritten(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	holder := proxy.Client().Conn()
	defer holder.Close()
	if err := holder.Get(t.Context(), "again:doc").Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	client := proxy.Client(func(o *redis.Options) {
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 10_000, time.Millisecond, 10*time.Millisecond
	}).Conn() // ends with its client
	read := make(chan *redis.StringCmd, 1)
	go func() { read <- client.Get(t.Context(), "again:doc") }()
	proxy.WaitLog(t, "msg=LOCKED")
	if err := holder.Set(t.Context(), "again:doc", "the holder's", 0).Err(); err != nil {
		t.Fatal(err)
	}
	value, err := (<-read).Result()
	if err != nil || value != "the holder's" {
		t.Fatalf("read %q, %v; want what the holder has written", value, err)
	}
	if err := client.Set(t.Context(), "again:doc", value+", and mine", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, want := server.Client().Get(t.Context(), "again:doc").Val(), "the holder's, and mine"; got != want {
		t.Errorf("the value is %q, want %q", got, want)
	}
}
