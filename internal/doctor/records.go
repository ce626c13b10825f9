package doctor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

const reserved = tokenstore.Prefix

// records looks at what is under the reserved prefix: records of rules and providers of other names, and keys of others.
func records(ctx context.Context, e *exam) {
	names := map[string]int{}
	foreign, sample := 0, ""
	tokens := map[int][]string{}
	whole, err := e.scan(ctx, globbed(reserved), func(db int, key string) bool {
		r, ours := tokenstore.Recognize(db, key)
		switch {
		case !ours:
			if foreign++; sample == "" {
				sample = key
			}
		case r != nil && r.Rule != scratchRule:
			tokens[db] = append(tokens[db], r.Keys()[0])
		}
		return true
	})
	if err != nil {
		e.unsure(err, "look with redis-cli --scan --pattern '"+globbed(reserved)+"' for records of other rules and keys of others")
		return
	}
	known, providers := 0, map[string]int{}
	for db, all := range tokens {
		slices.Sort(all)
		all = slices.Compact(all)
		known += len(all)
		for _, key := range all {
			r, _ := tokenstore.Recognize(db, key)
			names[r.Rule]++
		}
		if err := e.countProviders(ctx, db, all, providers); err != nil {
			e.unsure(err, "give the proxy's user the keys "+reserved+"*")
			return
		}
	}
	good := true
	if foreign > 0 {
		good = false
		e.fail("rename what writes them: clients behind the proxy can't reach keys under it",
			"%d keys under the reserved prefix %s are no fence records (%q, say)", foreign, reserved, sample)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name == rule.Unguarded || e.ruled(name) {
			continue
		}
		good = false
		e.warn("give every proxy of this Redis the same rule names; after a renaming they go by themselves",
			"%d fence records are of a rule %q that the configuration does not have: who writes under it is not fenced by these rules", names[name], name)
	}
	for _, p := range slices.Sorted(maps.Keys(providers)) {
		if p == e.Config.Lock.Provider {
			continue
		}
		good = false
		e.fail("point every proxy at one provider, then run fence-proxy migrate --config …",
			"%d fence records are lock provider %s's, the configuration says %s: commands on those sessions are refused (FENCEDOWN)", providers[p], p, e.Config.Lock.Provider)
	}
	if good {
		seen := ""
		if !whole {
			seen = ", of the first keys"
		}
		e.ok("%d fence records, all of these rules and this lock provider%s", known, seen)
	}
}

func (e *exam) ruled(name string) bool {
	for _, r := range e.Config.Rules {
		if r.Name == name {
			return true
		}
	}
	return false
}

// countProviders counts records by the lock provider that they name.
func (e *exam) countProviders(ctx context.Context, db int, tokens []string, counts map[string]int) error {
	conn, err := e.in(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close()
	for chunk := range slices.Chunk(tokens, page) {
		pipe := conn.Pipeline()
		values := make([]*redis.StringCmd, 0, len(chunk))
		for _, token := range chunk {
			values = append(values, pipe.Get(ctx, token))
		}
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		for _, value := range values {
			if field := strings.Fields(value.Val()); len(field) == 4 {
				counts[field[3]]++
			}
		}
	}
	return nil
}
