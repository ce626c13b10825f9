package config

import (
	"slices"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// live are the options, besides the rules and the users, that a running proxy takes over. The others count from its next start on.
var live = []string{
	"drain", "log.level",
	"limits.connections", "limits.request", "limits.pipeline", "limits.waiters",
}

// Revised returns what a proxy that runs with c makes of a new configuration: c with those options of next that it can
// take over. changed names these, and restart those that differ and have to wait for its next start.
func (c *Config) Revised(next *Config) (revised *Config, changed, restart []string) {
	merged := *c
	merged.notes = next.notes
	for _, o := range options() {
		was, is := o.field(c), o.field(next)
		switch {
		case textOf(was) == textOf(is):
		case isLive(o.key):
			o.field(&merged).Set(is)
			changed = append(changed, o.key)
		default:
			restart = append(restart, o.key)
		}
	}
	merged.Rules, merged.Set = next.Rules, next.Set
	merged.Users = next.Users
	changed = append(changed, usersChanged(c.Users, next.Users)...)
	for name, what := range c.Set.Changes(next.Set) {
		changed = append(changed, "rule "+name+" "+what)
	}
	return &merged, changed, restart
}

// Guards reports whether a rule guards anything.
func (c *Config) Guards() bool { return slices.ContainsFunc(c.Rules, (*rule.Rule).Guards) }

func isLive(key string) bool { return slices.Contains(live, key) }
