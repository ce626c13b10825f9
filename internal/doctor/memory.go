package doctor

import (
	"context"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/size"
)

// memory looks at whether fence records may be evicted.
func memory(ctx context.Context, e *exam) {
	most, err := e.number(ctx, "maxmemory")
	if err != nil {
		e.unsure(err, "CONFIG GET maxmemory-policy must say noeviction")
		return
	}
	policy, err := e.info(ctx, "maxmemory_policy")
	if err != nil || policy == "" {
		policy, err = e.setting(ctx, "maxmemory-policy")
	}
	const remedy = "set maxmemory-policy noeviction, and alert on used_memory; or keep guarded data in a Redis of its own"
	limit := size.Size(most).String()
	switch {
	case most == 0 && err == nil:
		e.ok("no maxmemory: nothing is evicted (policy %s)", policy)
	case err != nil:
		e.unsure(err, "the settings of your provider must say maxmemory-policy noeviction")
	case policy == "noeviction":
		e.ok("maxmemory %s, policy noeviction", limit)
	case policy == "volatile-ttl":
		e.warn("give the rules a record_ttl that is longer than any TTL of yours; better: "+remedy,
			"maxmemory %s, policy volatile-ttl: fence records go when they are the next to expire", limit)
	case strings.HasPrefix(policy, "volatile-"):
		e.fail(remedy, "maxmemory %s, policy %s: fence records have a TTL, so they are what is evicted; who holds such a session is refused, and loses its turn", limit, policy)
	default:
		e.fail(remedy, "maxmemory %s, policy %s: fence records and guarded data are evicted; who holds such a session is refused, and loses its turn", limit, policy)
	}
}
