package demo

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// shortestLease keeps the demo short, and still lets an agent be late on a busy machine.
const shortestLease = 300 * time.Millisecond

// terms are the times of a demo: those of its rule, and of the pause.
type terms struct {
	lease, maxHold, wait, recordTTL time.Duration
	pause                           time.Duration // well past maxHold
}

// newTerms returns terms under which an agent that thinks for so long is never late unless it is
// paused.
func newTerms(think time.Duration) terms {
	lease := max(shortestLease, 3*think)
	return terms{
		lease: lease, maxHold: 2 * lease, wait: rule.Default().Wait, recordTTL: 6 * lease,
		pause: 3 * lease,
	}
}

// rules returns the rule that guards the keys with a prefix on these terms.
func (t terms) rules(prefix string) ([]*rule.Rule, error) {
	r := rule.Default()
	r.Mode = rule.ModeLock
	r.Name, r.Prefix = "demo", prefix
	guard, err := t.apply(r)
	return []*rule.Rule{guard}, err
}

func (t terms) apply(r rule.Rule) (*rule.Rule, error) {
	r.Wait, r.Lease, r.MaxHold, r.Idle, r.RecordTTL = t.wait, t.lease, t.maxHold, t.maxHold, t.recordTTL
	return rule.Compile(r)
}

// found returns the rules in a text that is to be pasted under "rules:", on these terms.
func (t terms) found(text string) (rules []*rule.Rule, err error) {
	file, err := os.CreateTemp("", "fence-proxy-demo-*.yaml")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("rules:\n" + text)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	cfg, err := config.Load(file.Name(), nil)
	if err != nil {
		return nil, fmt.Errorf("the rules that were found: %w", err)
	}
	for _, r := range cfg.Rules {
		on, err := t.apply(*r)
		if err != nil {
			return nil, err
		}
		rules = append(rules, on)
	}
	return rules, nil
}
