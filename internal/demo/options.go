package demo

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// Limits of the options: an agent alone loses nothing, and each has a proxy of its own.
const (
	minAgents  = 2
	maxAgents  = 64
	maxUpdates = 1000
	maxThink   = 10 * time.Second
)

// Options say what Run does.
type Options struct {
	Agents   int           // how many agents race
	Updates  int           // that each of them makes
	Think    time.Duration // between an update's read and its write
	Upstream string        // the Redis to race on, as upstream.url in the configuration
	Observe  bool          // the first race is observed, and the second run under the rules that were found

	Out io.Writer    // where the story is told
	Log *slog.Logger // the proxies' logs
}

// Default returns the defaults: a few seconds on an embedded store, without the proxies' logs.
func Default() Options {
	return Options{
		Agents: 4, Updates: 10, Think: 20 * time.Millisecond, Upstream: config.Embedded,
		Out: io.Discard, Log: slog.New(slog.DiscardHandler),
	}
}

// Check says what is wrong with the options, in terms of the command line.
func (o *Options) Check() error {
	var errs []error
	if o.Agents < minAgents || o.Agents > maxAgents {
		errs = append(errs, fmt.Errorf("--agents: %d cannot race: write a number from %d to %d", o.Agents, minAgents, maxAgents))
	}
	if o.Updates < 1 || o.Updates > maxUpdates {
		errs = append(errs, fmt.Errorf("--updates: %d is out of range: write a number from 1 to %d", o.Updates, maxUpdates))
	}
	if o.Think < 0 || o.Think > maxThink {
		errs = append(errs, fmt.Errorf("--think: %s is out of range: write a time from 0s to %s", rule.Text(o.Think), rule.Text(maxThink)))
	}
	if _, err := o.target(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// target takes Upstream apart.
func (o *Options) target() (config.Target, error) {
	target, err := config.Upstream{URL: o.Upstream}.Target()
	var mistake *config.Error
	if errors.As(err, &mistake) {
		mistake.Key = "--upstream"
	}
	return target, err
}
