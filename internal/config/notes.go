package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// patientWait is the shortest default socket timeout of the common clients.
const patientWait = 2 * time.Second

// Notes says what is no mistake, but worth knowing, one line each; rules with
// the same note share a line.
func (c *Config) Notes() []string {
	notes := append([]string(nil), c.notes...)
	if c.Upstream.URL == Embedded {
		notes = append(notes, `upstream.url is "embedded:": all data is in this process's memory and gone when it ends`)
	}
	if target, _ := parseURL(c.Upstream.URL); len(c.Users) > 0 && !target.Embedded && target.Password == "" && c.Upstream.Password == "" && c.Upstream.PasswordFile == "" {
		notes = append(notes, "users have to log in here, and the Redis asks the proxy for no password: whoever reaches it needs none")
	}
	if c.Set.Empty() {
		return append(notes, "there are no rules: no key is guarded")
	}

	var texts []string
	owners := make(map[string][]string) // of each text
	add := func(r *rule.Rule, text string, args ...any) {
		text = fmt.Sprintf(text, args...)
		if owners[text] == nil {
			texts = append(texts, text)
		}
		owners[text] = append(owners[text], r.Name)
	}
	for _, r := range c.Rules {
		if r.Mode == rule.ModePass {
			if !c.exempts(r) && !c.accompanies(r) {
				add(r, "mode is pass, and no other rule guards a shorter prefix: the rule changes nothing")
			}
			continue
		}
		if r.Wait < r.Lease {
			add(r, "after a proxy is killed its holds last until the lease (%s) ends; waiters give up after wait (%s)", rule.Text(r.Lease), rule.Text(r.Wait))
		}
		if r.Wait > patientWait {
			add(r, "wait (%s) is longer than the socket timeout that some clients have (Jedis 2s, go-redis 3s, redis-py 5s); one that gives up first sends its command again", rule.Text(r.Wait))
		}
		if d := r.Durability; d.Replicas > 0 && r.Wait <= patientWait && r.Wait+d.Timeout > patientWait {
			add(r, "wait (%s) and durability.timeout (%s) together are longer than the socket timeout that some clients have (Jedis 2s, go-redis 3s, redis-py 5s); one that gives up first sends its command again",
				rule.Text(r.Wait), rule.Text(d.Timeout))
		}
		if r.Idle > r.MaxHold {
			add(r, "idle (%s) is longer than max_hold (%s), which ends the hold first", rule.Text(r.Idle), rule.Text(r.MaxHold))
		}
	}
	for _, text := range texts {
		label := "rule "
		if len(owners[text]) > 1 {
			label = "rules "
		}
		notes = append(notes, label+strings.Join(owners[text], ", ")+": "+text)
	}
	return notes
}

// exempts reports whether a rule that guards has a prefix of the prefix of r.
func (c *Config) exempts(r *rule.Rule) bool {
	for _, o := range c.Rules {
		if o.Mode != rule.ModePass && strings.HasPrefix(r.Prefix, o.Prefix) {
			return true
		}
	}
	return false
}

// accompanies reports whether r is of a preset that guards something: then it is there for rules that may come.
func (c *Config) accompanies(r *rule.Rule) bool {
	return slices.ContainsFunc(c.Rules, func(o *rule.Rule) bool { return r.Preset != "" && o.Preset == r.Preset && o.Guards() })
}
