package provider

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/consul/api"
)

// cleanUp deletes, now and then, the keys that nobody has held for a while. A release leaves none, but what was held by a session that
// has ended stays.
func (l *consul) cleanUp() {
	var seen map[string]uint64
	for {
		// Not all proxies at the same time.
		consulPause(l.leaving, l.settings.CleanupInterval/2+rand.N(l.settings.CleanupInterval))
		if l.leaving.Err() != nil {
			return
		}
		seen = l.cleanUpOnce(seen)
	}
}

// cleanUpOnce deletes what is as it was seen the last time, and returns what is to be looked at the next time: indexes by keys.
func (l *consul) cleanUpOnce(seen map[string]uint64) map[string]uint64 {
	ctx, cancel := context.WithTimeout(l.leaving, time.Minute)
	defer cancel()
	pairs, _, err := l.client.KV().List(l.settings.Path+"/", (&api.QueryOptions{AllowStale: true}).WithContext(ctx))
	if err != nil {
		return seen
	}
	idle := map[string]uint64{}
	for _, pair := range pairs {
		switch {
		case pair.Session != "":
		case seen[pair.Key] != pair.ModifyIndex:
			idle[pair.Key] = pair.ModifyIndex
		default:
			_, _, _ = l.client.KV().DeleteCAS(pair, (&api.WriteOptions{}).WithContext(ctx)) // or the next time
		}
	}
	return idle
}
