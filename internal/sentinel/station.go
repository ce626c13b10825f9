package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// askTimeout bounds a question to a Sentinel.
	askTimeout = time.Second
	// others is how long the other Sentinels have, once one has answered.
	others = 200 * time.Millisecond
	// stationsMost bounds how many are asked.
	stationsMost = 16
	// silence is how long a subscription may be silent before a sign of life is asked for.
	silence = 5 * time.Second
)

// news are the channels on which Sentinels tell of another primary. The one that leads a failover names it as soon as a
// replica is promoted, the others when all is done, up to which the old one takes writes that will be lost.
var news = []string{"+switch-master", "+promoted-slave"}

// station is a Sentinel that is asked, and listened to.
type station struct {
	client *redis.SentinelClient
	end    context.CancelFunc
	ended  sync.WaitGroup
	given  bool // in the configuration, not heard of from another
}

func (s *station) close() {
	s.end()
	s.ended.Wait()
	_ = s.client.Close()
}

// answer is what a Sentinel says.
type answer struct {
	addr   string // of the primary
	epoch  int64
	others []string // Sentinels that it knows
	err    error
}

// station makes one for an address, unless there is one.
func (d *Dialer) station(ctx context.Context, addr string) {
	if d.stations[addr] != nil || len(d.stations) >= stationsMost {
		return
	}
	ctx, end := context.WithCancel(ctx)
	s := &station{
		client: redis.NewSentinelClient(d.asking(addr, d.options.Credentials)), end: end,
		given: slices.Contains(d.options.Sentinels, addr),
	}
	d.stations[addr] = s
	s.ended.Go(func() {
		for ctx.Err() == nil {
			d.listen(ctx, s)
		}
	})
}

// listen hears of news from a Sentinel until it does not answer any more.
func (d *Dialer) listen(ctx context.Context, s *station) {
	sub := s.client.Subscribe(ctx, news...)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		stop()
		_ = sub.Close()
	}()
	for asked := false; ctx.Err() == nil; {
		m, err := sub.ReceiveTimeout(ctx, silence)
		var quiet net.Error
		switch {
		case errors.As(err, &quiet) && quiet.Timeout():
			if asked {
				return
			}
			asked = true
			_ = sub.Ping(ctx)
			continue
		case err != nil:
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			return
		}
		asked = false
		switch m := m.(type) {
		case *redis.Subscription:
			d.hear() // it may have told of something before
		case *redis.Message:
			if slices.Contains(strings.Fields(m.Payload), d.options.Name) {
				d.hear()
			}
		}
	}
}

// hear takes in that the Sentinels may name another primary.
func (d *Dialer) hear() {
	d.news.Store(true)
	d.Suspect()
}

// ask asks all Sentinels for the primary. The one with the newest configuration counts.
func (d *Dialer) ask(ctx context.Context) (best answer, err error) {
	d.asked = time.Now()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	answers := make(chan answer, len(d.stations))
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for _, s := range d.stations {
		asking.Go(func() { answers <- d.question(ctx, s) })
	}
	var known []string
	best.epoch = -1
	complete := true
	var soon <-chan time.Time
	for range len(d.stations) {
		var a answer
		select {
		case a = <-answers:
		case <-soon:
			complete = false
		}
		if !complete {
			break
		}
		if a.err != nil {
			err = worse(err, a.err)
			continue
		}
		known = append(known, a.others...)
		if a.epoch > best.epoch {
			best = a
		}
		if soon == nil {
			soon = time.After(others)
		}
	}
	if best.epoch < 0 {
		return best, err
	}
	d.meet(ctx, known, complete)
	return best, nil
}

// meet takes in which other Sentinels there are; with all, those that none has named are forgotten.
func (d *Dialer) meet(ctx context.Context, known []string, all bool) {
	for addr, s := range d.stations {
		if all && !s.given && !slices.Contains(known, addr) {
			s.close()
			delete(d.stations, addr)
		}
	}
	for _, addr := range known {
		d.station(context.WithoutCancel(ctx), addr)
	}
}

// question asks one Sentinel.
func (d *Dialer) question(ctx context.Context, s *station) (a answer) {
	addr, err := s.client.GetMasterAddrByName(ctx, d.options.Name).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return answer{err: &unknownError{d.options.Name}}
	case err != nil:
		return answer{err: fmt.Errorf("ask a Sentinel: %w", err)}
	case len(addr) != 2:
		return answer{err: fmt.Errorf("ask a Sentinel: it answers %q", addr)}
	}
	a.addr = net.JoinHostPort(addr[0], addr[1])
	if about, err := s.client.Master(ctx, d.options.Name).Result(); err == nil {
		a.epoch, _ = strconv.ParseInt(about["config-epoch"], 10, 64)
	}
	sentinels, err := s.client.Sentinels(ctx, d.options.Name).Result()
	if err != nil {
		return a
	}
	for _, other := range sentinels {
		if other["ip"] != "" && other["port"] != "" {
			a.others = append(a.others, net.JoinHostPort(other["ip"], other["port"]))
		}
	}
	return a
}

// unknownError says that a Sentinel does not watch over a primary of that name.
type unknownError struct{ name string }

func (e *unknownError) Error() string {
	return fmt.Sprintf("the Sentinels know no primary by the name %q: write the one of their \"sentinel monitor\" behind the addresses in upstream.url", e.name)
}

// worse is which of two Sentinels' errors says more of what is to be done: that it does not know the primary, or does not
// let the proxy ask, rather than that it is not there.
func worse(a, b error) error {
	rank := func(err error) int {
		var unknown *unknownError
		var refusal redis.Error
		switch {
		case err == nil:
			return 0
		case errors.As(err, &unknown):
			return 2
		case errors.As(err, &refusal):
			return 3
		}
		return 1
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}
