package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/size"
)

const (
	maxName = 64
	// leastBytes is above a client's and an upstream connection's own buffers.
	leastBytes = 64 * size.KB
	// leastNesting is above the depth of what Redis itself answers.
	leastNesting = 32
)

// finding is what is wrong with an option's value.
type finding struct {
	key string
	fault
}

// check looks at the values of all options outside of the rules.
func (c *Config) check() []finding {
	var found []finding
	refuse := func(key, remedy, problem string, args ...any) {
		found = append(found, finding{key, fault{fmt.Sprintf(problem, args...), remedy}})
	}

	listens := true
	if _, _, f := splitListen(c.Listen); c.Listen == "" {
		listens = false
	} else if f != nil {
		listens = false
		found = append(found, finding{"listen", *f})
	}
	if _, _, f := splitListen(c.Admin); c.Admin != "" && f != nil {
		found = append(found, finding{"admin", *f})
	} else if strings.Contains(c.Admin, "?") {
		refuse("admin", "remove it", "has a mode, which only listen takes")
	} else if c.Admin != "" && c.Admin == c.Listen && !strings.HasSuffix(c.Admin, ":0") {
		refuse("admin", `choose another port, or write "" to turn it off`, "is where clients connect")
	}
	found = append(found, c.checkAdmin()...)
	if c.Name == "" || len(c.Name) > maxName || strings.ContainsFunc(c.Name, func(r rune) bool { return !isNameRune(r) }) {
		refuse("name", "use 1 to 64 letters, digits, _ . or -", "%q cannot be a name", c.Name)
	}
	if c.Drain < 0 {
		refuse("drain", "write 0s to break sequences off, or a time such as 5s", "%s is negative", rule.Text(c.Drain))
	}
	target, f := parseURL(c.Upstream.URL)
	if f == nil {
		found = append(found, c.Upstream.checkLogin(target)...)
		found = append(found, c.Upstream.checkSentinel(target)...)
		found = append(found, c.checkTLS(target)...)
	}
	if f != nil {
		found = append(found, finding{"upstream.url", *f})
	} else if listens && c.listensAt(target) {
		refuse("upstream.url", "name the Redis, or listen elsewhere", "is where the proxy itself listens")
	}
	if c.Upstream.StartTimeout < 0 {
		refuse("upstream.start_timeout", "write 0 to try once", "%s is less than no time", rule.Text(c.Upstream.StartTimeout))
	}
	if c.Upstream.DialTimeout <= 0 {
		refuse("upstream.dial_timeout", "write a time such as 5s", "%s leaves no time to connect", rule.Text(c.Upstream.DialTimeout))
	}
	found = append(found, c.Limits.check()...)

	found = append(found, c.Lock.check()...)
	word := func(key, value string, words ...string) {
		if !slices.Contains(words, value) {
			refuse(key, "write "+choice(words), "%q is not known", value)
		}
	}
	word("upstream.cluster", c.Upstream.Cluster, ClusterHidden, ClusterPassthrough)
	word("log.level", c.Log.Level, "debug", "info", "warn", "error")
	word("log.format", c.Log.Format, "text", "json")
	found = append(found, c.Telemetry.check()...)
	return found
}

// check looks at the limits: each has a value below which nothing would work.
func (l *Limits) check() []finding {
	var found []finding
	atLeast := func(key string, ok bool, value, least any) {
		if !ok {
			found = append(found, finding{"limits." + key, fault{fmt.Sprintf("%v is too little to work with", value), fmt.Sprintf("write %v or more", least)}})
		}
	}
	atLeast("connections", l.Connections >= 1, l.Connections, 1)
	atLeast("request", l.Request >= leastBytes, l.Request, leastBytes)
	atLeast("nesting", l.Nesting >= leastNesting, l.Nesting, leastNesting)
	atLeast("pipeline", l.Pipeline >= 1, l.Pipeline, 1)
	atLeast("output_buffer", l.OutputBuffer >= leastBytes, l.OutputBuffer, leastBytes)
	atLeast("output_timeout", l.OutputTimeout == 0 || l.OutputTimeout >= time.Second, rule.Text(l.OutputTimeout), "0s for no limit, or 1s")
	atLeast("waiters", l.Waiters >= 1, l.Waiters, 1)
	return found
}

// choice lists words as in "debug, info, warn or error".
func choice(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_.-", r)
}
