package doctor

import (
	"context"
	"slices"
	"strings"
)

// rules looks for rules that fit no key: their prefix may be misspelt.
func rules(ctx context.Context, e *exam) {
	if e.Config.Set.Empty() {
		e.warn("find rules with fence-proxy observe, or write them: README, Rules", "the configuration has no rules: no key is guarded")
		return
	}
	idle := 0
	for _, r := range e.Config.Rules {
		if !r.Guards() {
			continue
		}
		fits := false
		whole, err := e.scan(ctx, globbed(r.Prefix), func(_ int, key string) bool {
			fits = e.Config.Set.Match([]byte(key)) == r
			return !fits
		})
		switch {
		case err != nil:
			e.unsure(err, "look with redis-cli --scan --pattern '"+globbed(r.Prefix)+"' whether the rules' prefixes are those of your keys")
			return
		case fits:
			e.ok("rule %s guards keys that are there (%s*)", r.Name, r.Prefix)
		case !whole:
			e.tell(Unsure, "look with redis-cli --scan --pattern '"+globbed(r.Prefix)+"'", "rule %s: none of the first keys begins with %q, and there are more than could be looked at", r.Name, r.Prefix)
		default:
			idle++
			e.warn("nothing to do if such keys are still to come; else compare the prefix with your keys ("+e.common(ctx)+")",
				"rule %s guards no key that is there: none begins with %q", r.Name, r.Prefix)
		}
	}
}

// common are the ways in which keys begin.
func (e *exam) common(ctx context.Context) string {
	const most = 3
	var heads []string
	_, err := e.scan(ctx, "*", func(_ int, key string) bool {
		head, _, cut := strings.Cut(key, ":")
		if cut {
			head += ":"
		}
		if strings.HasPrefix(key, reserved) || slices.Contains(heads, head) {
			return true
		}
		if len(heads) == most {
			return false
		}
		heads = append(heads, head)
		return true
	})
	if err != nil || len(heads) == 0 {
		return "there are none"
	}
	return "they begin with " + strings.Join(heads, ", ") + " …"
}
