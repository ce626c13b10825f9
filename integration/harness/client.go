package harness

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// newClient returns a go-redis client with its default settings, which the edits
// may change; it is closed when the test ends.
func newClient(tb testing.TB, addr string, edits []func(*redis.Options)) *redis.Client {
	tb.Helper()
	options := &redis.Options{Addr: addr, Network: network(addr)}
	for _, edit := range edits {
		edit(options)
	}
	client := redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
