package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// way is one way to do a read-modify-write cycle.
type way struct {
	name     string
	proxied  bool // its clients connect to the proxy
	etcd     bool // it has its locks at an etcd
	lossless bool // it must not lose an update
	gather   gather
}

// gather connects n clients, who share the keys evenly, and lets each do a cycle.
type gather func(tb testing.TB, to place, keys []string, n int) crowd

// place is where the clients find what they need, each a "host:port".
type place struct {
	redis string // or the proxy
	etcd  string
}

// guard runs a cycle while nobody else does, or so it hopes. errGaveUp says that it
// did not come to it, or that it was refused: nothing was written.
type guard func(ctx context.Context, cycle func(context.Context) error) error

var errGaveUp = errors.New("gave up")

const (
	bareName      = "bare"
	redsyncName   = "redsync"
	redislockName = "redislock"
)

// ways are those that are compared; the one that this is about is the last.
var ways = []way{
	{name: bareName, gather: inProcess(unguarded)},
	{name: redsyncName, lossless: true, gather: inProcess(redsyncLocked)},
	{name: redislockName, lossless: true, gather: inProcess(redislockLocked)},
	{name: "rueidislock", lossless: true, gather: inProcess(rueidisLocked)},
	{name: "redis-py Lock", lossless: true, gather: redisPy},
	{name: "node redlock", lossless: true, gather: nodeRedlock},
	{name: "etcd Mutex", etcd: true, lossless: true, gather: inProcess(etcdLocked)},
	{name: fenceName, proxied: true, lossless: true, gather: inProcess(fenced)},
}

func unguarded(testing.TB, place, *redis.Client, string) guard {
	return func(ctx context.Context, cycle func(context.Context) error) error { return cycle(ctx) }
}

// fenced leaves it to the proxy.
func fenced(testing.TB, place, *redis.Client, string) guard {
	return func(ctx context.Context, cycle func(context.Context) error) error {
		err := cycle(ctx)
		if err != nil && (strings.HasPrefix(err.Error(), "LOCKED ") || strings.HasPrefix(err.Error(), "FENCED ")) {
			return fmt.Errorf("%w: %w", errGaveUp, err)
		}
		return err
	}
}
