//go:build integration

package integration

import (
	"fmt"
	"sync"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 12, its second half: a proxy that is killed in the middle of writes leaves no value without
// its time to live.
func TestAProxyKilledInTheMiddleOfWritesLeavesNoValueWithoutItsTTL(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	var writers sync.WaitGroup
	under := make(chan struct{}, 8) // a writer has had its first answers
	for w := range 8 {
		conn := harness.Dial(t, proxy.Addr)
		writers.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("ctx:%d:%d", w, i)
				for _, command := range []string{harness.Encode("GET", key), harness.Encode("SET", key, "v", "EX", "1000")} {
					if _, err := conn.Write([]byte(command)); err != nil {
						return
					}
					if _, err := conn.Read(); err != nil {
						return
					}
				}
				if i == 20 {
					under <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-under
	}
	proxy.Kill()
	writers.Wait()

	direct := server.Client()
	keys, err := direct.Keys(t.Context(), "ctx:*").Result()
	if err != nil || len(keys) < 8*20 {
		t.Fatalf("%d keys were written: %v", len(keys), err)
	}
	for _, key := range keys {
		if ttl := direct.TTL(t.Context(), key).Val(); ttl <= 0 {
			t.Errorf("%s stands without its time to live (%v)", key, ttl)
		}
	}
}
