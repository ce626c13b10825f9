//go:build !linux

package harness

import "time"

// alarm waits for a point in time.
type alarm struct {
	ended <-chan struct{} // ends a wait early
}

func newAlarm(ended <-chan struct{}) *alarm { return &alarm{ended} }

// wait returns at that time, or returns false when the link has ended.
func (a *alarm) wait(due time.Time) bool { return sleep(time.Until(due), a.ended) }

func (a *alarm) close() {}
