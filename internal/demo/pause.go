package demo

import (
	"context"
	"sync"
	"time"
)

// pause is the one long interruption of a race. One agent takes it; the others see to it that it
// is overtaken.
type pause struct {
	length    time.Duration
	begun     chan struct{} // closed when the paused agent has read
	overtaken chan struct{} // closed when another has since made an update from start to end
	once      sync.Once     // closes overtaken
}

func newPause(length time.Duration) *pause {
	return &pause{length: length, begun: make(chan struct{}), overtaken: make(chan struct{})}
}

// take pauses the calling agent. An agent takes a pause once.
func (p *pause) take(ctx context.Context) error {
	close(p.begun)
	if err := sleep(ctx, p.length); err != nil {
		return err
	}
	return await(ctx, p.overtaken)
}

// hasBegun reports whether the paused agent has read.
func (p *pause) hasBegun() bool {
	select {
	case <-p.begun:
		return true
	default:
		return false
	}
}

// overtake notes an update that was begun after the pause and is acknowledged.
func (p *pause) overtake() { p.once.Do(func() { close(p.overtaken) }) }

// await waits for a channel to be closed, or for the end of ctx.
func await(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return nil
	}
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
