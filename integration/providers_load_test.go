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

// Case 1, while proxies freeze past their leases and the provider's servers stop and come back.
func TestNoUpdateIsLostWithLocksElsewhereWhateverFails(t *testing.T) {
	t.Parallel()
	const owners, key = 8, "ctx:s"
	eachProvider(t, func(e *elsewhere) {
		t := e.t
		options := []string{"mode: lock", "wait: 20s", "lease: 2s"}
		proxies := []*harness.Proxy{e.proxy("one", options...), e.proxy("two", options...)}
		var stop atomic.Bool
		var turns [owners]atomic.Int64
		total := func() (n int64) {
			for i := range turns {
				n += turns[i].Load()
			}
			return n
		}
		var work sync.WaitGroup
		for i := range owners {
			c, _ := connect(t, fmt.Sprint(i), proxies[i%2].Addr)
			work.Go(func() {
				for !stop.Load() && !t.Failed() {
					if c.adds(key, fmt.Sprintf("%d.%d ", i, turns[i].Load())) {
						turns[i].Add(1)
					} else {
						time.Sleep(time.Millisecond) // while the provider is down it is refused at once
					}
				}
			})
		}
		work.Go(func() { e.grantsGrow(key, &stop) })
		goOn := func() {
			t.Helper()
			before := total()
			harness.Eventually(t, 0, func() bool { return total() > before+4*owners || t.Failed() }, "the owners go on")
		}
		defer work.Wait()
		defer stop.Store(true)
		goOn()
		for i := range 4 {
			p := proxies[i%2]
			p.Pause()
			goOn() // when its lease has ended, should it hold the session
			p.Resume()
			goOn()
			if i%2 == 1 {
				e.stop()
				harness.Eventually(t, 0, func() bool { return !isReady(proxies[0]) && !isReady(proxies[1]) }, "the proxies know that the provider is gone")
				e.start()
				goOn()
			}
		}
		stop.Store(true)
		work.Wait()
		value, err := e.redis.Client().Get(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]int{}
		for _, update := range strings.Fields(value) {
			there[update]++
		}
		for i := range owners {
			for n := range turns[i].Load() {
				if update := fmt.Sprintf("%d.%d", i, n); there[update] != 1 {
					t.Errorf("update %s is there %d times", update, there[update])
				}
			}
		}
		if int64(len(there)) != total() {
			t.Errorf("%d updates are there, of %d acknowledged", len(there), total())
		}
	})
}

// grantsGrow watches the newest grant of a key's session at the store.
func (e *elsewhere) grantsGrow(key string, stop *atomic.Bool) {
	newest, direct := uint64(0), e.redis.Client()
	for !stop.Load() {
		text, err := direct.Get(e.t.Context(), "fence-proxy:{ctx:"+key+"}:t").Result()
		if err != nil {
			continue // there is none yet
		}
		var grant uint64
		if _, err := fmt.Sscan(text, &grant); err != nil {
			e.t.Errorf("the record is %q: %v", text, err)
			return
		}
		if grant < newest {
			e.t.Errorf("grant %d comes after %d", grant, newest)
		}
		newest = grant
		time.Sleep(time.Millisecond)
	}
}
