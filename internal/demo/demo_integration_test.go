//go:build integration

package demo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// fenceTime is how long fence records of a demo that thinks briefly stay at most.
const fenceTime = 10 * time.Second

// keysOf waits until no fence record is left and returns the keys that are.
func keysOf(t *testing.T, c *redis.Client) []string {
	t.Helper()
	var keys []string
	harness.Eventually(t, fenceTime, func() bool {
		var err error
		if keys, err = c.Keys(t.Context(), "*").Result(); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if strings.HasPrefix(key, "fence-proxy:") {
				return false
			}
		}
		return true
	}, "the fence records expire")
	return keys
}

func TestDemoOnARealRedisLeavesItAsItWas(t *testing.T) {
	r := harness.StartRedis(t, harness.WithPassword("s3cret"))
	inDB := r.Client(func(o *redis.Options) { o.DB = 3 })
	if err := inDB.Set(t.Context(), "demo:mine", "untouched", 0).Err(); err != nil {
		t.Fatal(err)
	}
	o := quick()
	o.Upstream = r.URL() + "/3"
	run(t, o)
	if keys := keysOf(t, inDB); len(keys) != 1 || keys[0] != "demo:mine" {
		t.Errorf("keys in the demo's database: %q", keys)
	}
	if keys := keysOf(t, r.Client()); len(keys) != 0 {
		t.Errorf("keys in another database: %q", keys)
	}
}

func TestObserverCountsWhatTheDemoHasLostOnARealRedis(t *testing.T) {
	r := harness.StartRedis(t)
	o := quick()
	o.Agents, o.Updates, o.Observe, o.Upstream = 6, 10, true, r.URL()
	result := run(t, o)
	if result.Observed.Lost != int64(result.Straight.Lost) || result.Observed.Unsure != 0 {
		t.Errorf("the observer counted %d, of %d the order is unsure; %d were lost", result.Observed.Lost, result.Observed.Unsure, result.Straight.Lost)
	}
	if keys := keysOf(t, r.Client()); len(keys) != 0 {
		t.Errorf("keys: %q", keys)
	}
}

func TestDemoOnASocket(t *testing.T) {
	r := harness.StartRedis(t, harness.WithSocket())
	o := quick()
	o.Upstream = "unix://" + r.Socket
	run(t, o)
}

func TestAgentsThatWaitInVainTryAgain(t *testing.T) {
	r := harness.StartRedis(t)
	o := quick()
	o.Agents, o.Updates, o.Think, o.Upstream = 3, 1, 600*time.Millisecond, r.URL() // max_hold is 3.6s, wait 1.5s
	if f := run(t, o).Through; f.Locked == 0 {
		t.Errorf("nobody waited in vain: %+v", f)
	}
}

func TestInterruptedDemoLeavesNoKeys(t *testing.T) {
	r := harness.StartRedis(t)
	for _, at := range []string{"First straight", "Then through"} {
		t.Run(at, func(t *testing.T) {
			o := quick()
			o.Upstream = r.URL()
			interrupted(t, o, at)
			if keys := keysOf(t, r.Client()); len(keys) != 0 {
				t.Errorf("keys: %q", keys)
			}
		})
	}
}
