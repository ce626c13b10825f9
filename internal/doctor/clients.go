package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// client libraries, by what they call themselves in CLIENT SETINFO, and how long they wait for a reply unless they are told
// otherwise; 0: for ever. since is from which major version on that counts.
var libraries = []struct {
	name  string
	since string
	waits time.Duration
}{
	{"jedis", "", 2 * time.Second},
	{"go-redis", "", 3 * time.Second},
	{"redis-py", "8", 5 * time.Second},
	{"redis-py", "", 0},
	{"lettuce", "", 60 * time.Second},
	{"rueidis", "", 10 * time.Second},
	{"se.redis", "", 5 * time.Second},
	{"ioredis", "", 0},
	{"node-redis", "", 0},
}

// libraryOf is how long a library waits; known is false for one that is not in the table.
func libraryOf(name, version string) (waits time.Duration, known bool) {
	name, _, _ = strings.Cut(strings.ToLower(name), "(") // "go-redis(,go1.26)"
	major, _, _ := strings.Cut(version, ".")
	for _, l := range libraries {
		if l.name == name && (len(major) > len(l.since) || len(major) == len(l.since) && major >= l.since) {
			return l.waits, true
		}
	}
	return 0, false
}

// clients compares how long the clients that are there wait for a reply with how long rules let a command wait.
func clients(ctx context.Context, e *exam) {
	list, err := e.asks().ClientList(ctx).Result()
	if err != nil {
		e.unsure(err, "compare the socket timeout of your client library with the longest wait of the rules: it must be longer")
		return
	}
	seen := map[string]time.Duration{}
	for line := range strings.Lines(list) {
		f := lineFields(line)
		name, version := f["lib-name"], f["lib-ver"]
		if waits, known := libraryOf(name, version); known && f["name"] != "fence-proxy" {
			seen[strings.TrimSpace(name+" "+version)] = waits
		}
	}
	longest, by := time.Duration(0), ""
	for _, r := range e.Config.Rules {
		if r.Guards() && r.Wait > longest {
			longest, by = r.Wait, r.Name
		}
	}
	good := true
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if waits := seen[name]; waits > 0 && waits <= longest {
			good = false
			e.warn("lower the rule's wait below "+rule.Text(waits)+", or raise the client's socket timeout",
				"%s gives up on a reply after %s unless it is told otherwise, rule %s lets a command wait for %s: it sends it again meanwhile", name, rule.Text(waits), by, rule.Text(longest))
		}
	}
	switch {
	case !good:
	case len(seen) == 0:
		e.ok("no client of a library whose timeout is known is connected; rules let a command wait for %s at most", rule.Text(longest))
	default:
		e.ok("%s wait for longer than rules let a command wait (%s)", strings.Join(slices.Sorted(maps.Keys(seen)), ", "), rule.Text(longest))
	}
}

// lineFields are the fields of a line of CLIENT LIST.
func lineFields(line string) map[string]string {
	all := map[string]string{}
	for _, word := range strings.Fields(line) {
		if name, value, ok := strings.Cut(word, "="); ok {
			all[name] = value
		}
	}
	return all
}
