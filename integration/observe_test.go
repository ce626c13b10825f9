//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/observe"
)

// racers each add their updates to lists that they share, as agents do: read, and write what was read
// and one more. It returns how many were answered with OK and are not there in the end.
type racers struct {
	agents, updates int
	keys            []string

	// update adds an entry to the list at a key. With an error that may pass it is tried again.
	update func(ctx context.Context, conn *redis.Conn, key, entry string) error
}

func (r racers) run(t *testing.T, store *redis.Client, ways ...*redis.Client) (lost int) {
	t.Helper()
	for _, way := range ways {
		// Its first connection learns that the server has no maintenance notifications. Connections taken with Conn would
		// all write that into the client's options, unsynchronized.
		if err := way.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, r.agents)
	for i := range r.agents {
		go func() {
			conn := ways[i%len(ways)].Conn()
			defer conn.Close()
			for n := range r.updates {
				entry := fmt.Sprintf("%d.%d", i, n)
				for {
					err := r.update(t.Context(), conn, r.keys[(i+n)%len(r.keys)], entry)
					if err == nil {
						break
					}
					if !mayPass(err) {
						done <- fmt.Errorf("agent %d, update %d: %w", i, n, err)
						return
					}
				}
			}
			done <- nil
		}()
	}
	for range r.agents {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for _, key := range r.keys {
		kept += len(entries(t, store, key))
	}
	return r.agents*r.updates - kept
}

func mayPass(err error) bool {
	return errors.Is(err, redis.TxFailedErr) || redis.HasErrorPrefix(err, "LOCKED ") || redis.HasErrorPrefix(err, "FENCED ")
}

func entries(t *testing.T, store *redis.Client, key string) (list []string) {
	t.Helper()
	text, err := store.Get(t.Context(), key).Result()
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%s: %v", key, err)
	}
	return list
}

// appended is a JSON list with one more entry.
func appended(text, entry string) string {
	var list []string
	_ = json.Unmarshal([]byte(text), &list)
	all, _ := json.Marshal(append(list, entry))
	return string(all)
}

// plainly reads and writes.
func plainly(ctx context.Context, conn *redis.Conn, key, entry string) error {
	text, err := conn.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return conn.Set(ctx, key, appended(text, entry), 0).Err()
}

// inTransactions reads in one transaction and writes in another.
func inTransactions(ctx context.Context, conn *redis.Conn, key, entry string) error {
	var text *redis.StringCmd
	_, err := conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Exists(ctx, key)
		text = p.Get(ctx, key)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	_, err = conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, key+":writes")
		p.Set(ctx, key, appended(text.Val(), entry), 0)
		return nil
	})
	return err
}

// watching writes only what nobody has changed since.
func watching(ctx context.Context, conn *redis.Conn, key, entry string) error {
	if err := conn.Do(ctx, "WATCH", key).Err(); err != nil {
		return err
	}
	text, err := conn.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	_, err = conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, key, appended(text, entry), 0)
		return nil
	})
	return err
}

// chats are keys of sessions that agents share.
func chats(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("chat:%d:history", i))
	}
	return keys
}

func TestObserverCountsJustWhatIsLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		update func(context.Context, *redis.Conn, string, string) error
		safe   bool
	}{
		"read and write":  {plainly, false},
		"in transactions": {inTransactions, false},
		"with WATCH":      {watching, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := harness.StartRedis(t)
			o := harness.StartObserver(t, r)
			race := racers{agents: 8, updates: 60, keys: chats(3), update: test.update}
			lost := race.run(t, r.Client(), o.Client())
			report := o.Report()
			if report.Lost != int64(lost) || report.Unsure != 0 || (lost == 0) != test.safe {
				t.Errorf("counted %d, lost %d, order unsure of %d", report.Lost, lost, report.Unsure)
			}
			at := slices.IndexFunc(report.Patterns, func(p observe.Pattern) bool { return p.Pattern == "chat:*:history" })
			if at < 0 {
				t.Fatalf("patterns: %+v", report.Patterns)
			}
			if p := report.Patterns[at]; p.Keys != 3 || p.Sequences != 480 || p.Commands["set"] < 480 || !strings.HasPrefix(p.Clients[0].Library, "go-redis") {
				t.Errorf("%+v", p)
			}
		})
	}
}

func TestNothingIsLostUnderTheRulesThatWereProposed(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t)
	o := harness.StartObserver(t, r)
	race := racers{agents: 6, updates: 20, keys: chats(2), update: plainly}
	if lost := race.run(t, r.Client(), o.Client()); lost == 0 {
		t.Fatal("nothing was lost to begin with")
	}
	report := o.Report()
	if err := r.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	var ways []*redis.Client
	for range 2 {
		p := harness.StartProxy(t, harness.ProxyOptions{Redis: r, ConfigYAML: "rules:\n" + report.YAML})
		ways = append(ways, p.Client())
	}
	if lost := race.run(t, r.Client(), ways...); lost != 0 {
		t.Errorf("%d were lost under\n%s", lost, report.YAML)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("rules:\n"+report.YAML), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := harness.RunProxy(t, "check", config); code != 0 {
		t.Errorf("check: %d, %s", code, out)
	}
}

func TestObserverLeavesNothingInRedis(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t)
	o := harness.StartObserver(t, r)
	racers{agents: 4, updates: 5, keys: chats(2), update: plainly}.run(t, r.Client(), o.Client())
	keys, err := r.Client().Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 2 {
		t.Errorf("keys: %q, %v", keys, err)
	}
	stats, err := r.Client().Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"eval", "evalsha", "script|load", "subscribe", "watch"} {
		if strings.Contains(stats, "cmdstat_"+command+":") {
			t.Errorf("%s was sent to Redis", command)
		}
	}
	o.Report()
}
