package sentinel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// roleEvery is the time between two looks at the primary's ROLE.
	roleEvery = time.Second
	// askEvery is the time between two questions to Sentinels that send no news.
	askEvery = 10 * time.Second
	// soonest is the least time between two looks while there is no primary, latest the most.
	soonest = 100 * time.Millisecond
	latest  = time.Second
)

// follow looks who the primary is until ctx ends.
func (d *Dialer) follow(ctx context.Context) {
	defer d.dismiss()
	for _, addr := range d.options.Sentinels {
		d.station(ctx, addr)
	}
	d.news.Store(true)
	for {
		d.check(ctx)
		if !d.pause(ctx) {
			return
		}
	}
}

// pause waits until it is time to look again. It reports false when ctx has ended.
func (d *Dialer) pause(ctx context.Context) bool {
	wait := roleEvery
	if d.doubts > 0 {
		wait = min(soonest<<min(d.doubts-1, 8), latest)
		wait = wait/2 + rand.N(wait/2) // many proxies ask the same Sentinels
	}
	least := time.NewTimer(soonest / 2)
	defer least.Stop()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-d.poked:
			if d.news.Load() {
				return true
			}
			if d.doubts == 0 { // a first suspicion, but not each of many
				<-least.C
				return true
			}
		}
	}
}

// check asks the primary for its role, and the Sentinels if there is reason to.
func (d *Dialer) check(ctx context.Context) {
	primary := d.Primary()
	err := ErrUnsettled
	if primary != "" {
		err = d.role(ctx, primary)
	}
	if err == nil && !d.news.Load() && time.Since(d.asked) < askEvery {
		d.certain(primary)
		return
	}
	if isReplica(err) {
		d.abandon(primary, err) // which need not wait for the Sentinels
	}
	d.news.Store(false)
	found, askErr := d.ask(ctx)
	switch {
	case ctx.Err() != nil:
	case askErr != nil && err == nil:
		d.certain(primary) // no Sentinel answers, and it says that it is one
	case askErr != nil:
		d.unsure(fmt.Errorf("%w; %w", err, askErr))
	case found.addr == primary && err == nil:
		d.epoch = max(d.epoch, found.epoch)
		d.certain(primary)
	case found.addr == primary:
		d.unsure(err)
	case err == nil && found.epoch < d.epoch:
		d.certain(primary) // what only old Sentinels say
	default:
		if err := d.role(ctx, found.addr); err != nil {
			d.unsure(err)
			return
		}
		d.epoch = found.epoch
		d.certain(found.addr)
	}
}

func (d *Dialer) certain(primary string) {
	d.doubts = 0
	d.agree(primary)
}

func (d *Dialer) unsure(why error) {
	d.doubts++
	d.doubt(why)
}

// dismiss ends what the follower has begun.
func (d *Dialer) dismiss() {
	for _, s := range d.stations {
		s.close()
	}
	for _, j := range d.judges {
		_ = j.client.Close()
	}
}
