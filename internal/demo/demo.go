package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/observe"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// ErrLost says that an update was lost through fence-proxy, which must not be.
var ErrLost = errors.New("fence-proxy lost an acknowledged update: please report this as a bug")

// Run runs the two races, tells their story to o.Out, and returns what was counted. It cleans up
// also when ctx ends; the error is then the cause. It is ErrLost if the fence did not hold.
func Run(ctx context.Context, o Options) (result Result, err error) {
	if err := o.Check(); err != nil {
		return result, err
	}
	s, err := openStore(ctx, &o)
	if err != nil {
		return result, err
	}
	defer s.close()
	prefix := "demo:" + strings.ToLower(rand.Text()[:12]) + ":"
	straightKey, throughKey := prefix+"straight", prefix+"through"
	if o.Observe {
		throughKey = straightKey // for which the rules were found
	}
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx) // whatever it stopped us in
		}
		err = errors.Join(err, s.remove(ctx, straightKey, throughKey))
	}()
	d := &demo{Options: o, terms: newTerms(o.Think), store: s}

	story := &story{out: o.Out}
	story.introduce(o, d.terms)
	guard, err := d.terms.rules(prefix)
	if err != nil {
		return result, err
	}
	story.announce("First straight at Redis (%s) …", s.name)
	if o.Observe {
		result.Straight, result.Observed, err = d.observed(ctx, straightKey)
		if err == nil {
			story.observe(result)
			guard, err = d.terms.found(result.Observed.YAML)
		}
	} else {
		result.Straight, err = d.race(ctx, straightKey, s.ways(o.Agents))
	}
	if err != nil {
		return result, fmt.Errorf("straight at Redis: %w", err)
	}
	story.announce("Then through fence-proxy, a proxy for each agent …")
	if result.Through, err = d.fenced(ctx, throughKey, guard); err != nil {
		return result, fmt.Errorf("through fence-proxy: %w", err)
	}
	story.conclude(result)
	if story.err != nil {
		return result, fmt.Errorf("write the report: %w", story.err)
	}
	if result.Through.Lost > 0 {
		return result, ErrLost
	}
	return result, nil
}

// demo is what the two races have in common.
type demo struct {
	Options
	terms terms
	store *store
}

// observed races through one proxy that observes and guards nothing.
func (d *demo) observed(ctx context.Context, key string) (f Figures, report *observe.Report, err error) {
	observer := observe.New(patience)
	proxies, err := startFleet(ctx, 1, d.store.url, nil, d.Log, app.Observed(observer))
	if err == nil {
		f, err = d.race(ctx, key, slices.Repeat(proxies.ways, d.Agents))
	}
	if err := errors.Join(err, proxies.close()); err != nil {
		return f, nil, err
	}
	return f, observer.Report(), d.store.remove(ctx, key)
}

// fenced starts a proxy for each agent and races through them.
func (d *demo) fenced(ctx context.Context, key string, guard []*rule.Rule) (f Figures, err error) {
	proxies, err := startFleet(ctx, d.Agents, d.store.url, guard, d.Log)
	defer func() { err = errors.Join(err, proxies.close()) }()
	if err != nil {
		return f, err
	}
	return d.race(ctx, key, proxies.ways)
}

// race runs one race and counts.
func (d *demo) race(ctx context.Context, key string, ways []redis.Options) (Figures, error) {
	r := &race{key: key, updates: d.Updates, think: d.Think, pause: newPause(d.terms.pause), wait: d.terms.wait}
	agents, elapsed, err := r.run(ctx, ways)
	if err != nil {
		return Figures{}, err
	}
	final, err := d.store.session(ctx, key)
	if err != nil {
		return Figures{}, err
	}
	return count(agents, final, elapsed), nil
}
