package provider

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// redlockHold is the Hold of a claim that was granted.
type redlockHold struct {
	claim    *redlockClaim
	grant    uint64
	lost     chan struct{}
	done     chan struct{} // closed when it is over
	renewing chan struct{} // holds one while a Renew is under way

	mu    sync.Mutex
	until time.Time
	over  bool        // lost or released
	timer *time.Timer // to until
}

func newRedlockHold(c *redlockClaim, grant uint64, until time.Time) *redlockHold {
	h := &redlockHold{claim: c, grant: grant, until: until, lost: make(chan struct{}), done: make(chan struct{}), renewing: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(time.Until(until), h.lapse)
	c.l.tasks.Go(h.spread)
	return h
}

// Grant is Hold's.
func (h *redlockHold) Grant() uint64 { return h.grant }

// Lost is Hold's.
func (h *redlockHold) Lost() <-chan struct{} { return h.lost }

// Until is Hold's.
func (h *redlockHold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// Renew is Hold's.
func (h *redlockHold) Renew(ctx context.Context) error {
	if !h.claim.l.enter() {
		return ErrLost
	}
	defer h.claim.l.tasks.Done()
	_, err := h.renew(ctx, false)
	return err
}

// renew returns how many nodes have the lock now, if it is to wait for all of them. The caller has entered.
func (h *redlockHold) renew(ctx context.Context, all bool) (have int, err error) {
	l, c := h.claim.l, h.claim
	select {
	case h.renewing <- struct{}{}:
		defer func() { <-h.renewing }()
	case <-ctx.Done():
		return 0, fmt.Errorf("redlock: renew: %w", ctx.Err())
	}
	if !h.stands() {
		return 0, ErrLost
	}
	began := time.Now()
	answers := c.ask(redlockRenew, c.value, strconv.FormatUint(h.grant, 10),
		millis(l.settings.CounterTTL), millis(c.lease), millis(l.settings.RestartDelay))
	t := redlockRenewal{redlockTally: l.tally()}
	for t.undecided() || all && t.pending > 0 {
		a, err := next(ctx, answers)
		if err != nil {
			return 0, fmt.Errorf("redlock: renew: %w", err)
		}
		t.count(a)
	}
	switch {
	case t.renewed() && h.extend(began.Add(c.lease-l.drift(c.lease))):
		return t.yes, nil
	case t.renewed() || t.lost():
		h.lose()
		return 0, ErrLost
	case !h.stands():
		return 0, ErrLost
	default:
		return 0, fmt.Errorf("redlock: renew: %w", t.down())
	}
}

// spread renews a hold early, a few times, when a node's lock was another's as it was granted: that one has taken it in
// vain and gives it back in a moment. Till then the hold has a node less to spare.
func (h *redlockHold) spread() {
	l, t := h.claim.l, h.claim.tally
	for t.pending > 0 {
		a := <-h.claim.answers
		t.count(a.err == nil && a.fields[0] == "taken", a.err)
	}
	for n, have := 0, t.yes; n < 5 && have < t.yes+t.no; n++ {
		select {
		case <-time.After(l.backoff(n)):
		case <-h.done:
			return
		}
		var err error
		if have, err = h.renew(l.leaving, true); err != nil {
			return // whoever keeps the hold will see it
		}
	}
}

// redlockRenewal counts the answers of a renewal. Yes is a lock that stands, kept or joined.
type redlockRenewal struct {
	*redlockTally
	kept int
}

func (t *redlockRenewal) count(a redlockAnswer) {
	yes := a.err == nil && a.fields[0] != "gone"
	t.redlockTally.count(yes, a.err)
	if yes && a.fields[0] == "kept" {
		t.kept++
	}
}

func (t *redlockRenewal) undecided() bool { return t.pending > 0 && !t.renewed() && t.no <= t.spare }

// renewed needs a node that had the lock throughout: if all are new, the hold was ended everywhere, or its lease was.
func (t *redlockRenewal) renewed() bool { return t.yes >= t.quorum && t.kept > 0 }

// lost: so many nodes say that it is not theirs any more that it has no quorum, or all who answered.
func (t *redlockRenewal) lost() bool {
	return t.no > t.spare || t.kept == 0 && t.yes+t.no >= t.quorum
}

func (t *redlockRenewal) down() error {
	return fmt.Errorf("%d of %d nodes have the lock, %d have to: %w", t.yes, t.yes+t.no+len(t.errs), t.quorum, redlockErrors(t.errs))
}

// Release is Hold's.
func (h *redlockHold) Release(ctx context.Context) error {
	l := h.claim.l
	if !l.enter() {
		return nil // Close has released it
	}
	defer l.tasks.Done()
	return h.end(ctx)
}

// end releases the hold unless it is over. The caller has entered.
func (h *redlockHold) end(ctx context.Context) error {
	if !h.finish() {
		return nil
	}
	outcome := make(chan error, 1)
	l := h.claim.l
	l.tasks.Go(func() {
		t, others := l.tally(), 0
		answers := h.claim.ask(redlockRelease, h.claim.value, "tell")
		for t.undecided() {
			a := <-answers
			t.count(a.err == nil, a.err)
			if a.err == nil {
				n, _ := strconv.Atoi(a.fields[1])
				others = max(others, n)
			}
		}
		l.ended(h, others > 0)
		outcome <- t.down()
	})
	select {
	case err := <-outcome:
		if err != nil {
			return fmt.Errorf("redlock: release: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redlock: release: %w", ctx.Err())
	}
}

// extend moves the end, unless it has come already.
func (h *redlockHold) extend(until time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || !time.Now().Before(h.until) {
		return false
	}
	h.until = until
	h.timer.Reset(time.Until(until))
	return true
}

func (h *redlockHold) stands() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.over && time.Now().Before(h.until)
}

func (h *redlockHold) isOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over
}

// finish makes the hold over, once.
func (h *redlockHold) finish() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return false
	}
	h.over = true
	h.timer.Stop()
	h.claim.over.Store(true)
	close(h.done)
	return true
}

// lapse is the timer's.
func (h *redlockHold) lapse() {
	if left := time.Until(h.Until()); left > 0 { // it was renewed as the timer fired
		return
	}
	h.lose()
}

// lose ends the hold that is over at the nodes, or may be soon.
func (h *redlockHold) lose() {
	if !h.finish() {
		return
	}
	close(h.lost)
	l := h.claim.l
	if l.enter() {
		defer l.tasks.Done()
		h.claim.give()
	}
	l.ended(h, false)
}
