package harness

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm waits for a point in time more exactly than a timer of the Go runtime, which
// is up to a millisecond late in an idle process: that would be most of the delay
// that a relay is to add. A timerfd wakes its goroutine through the poller, on time.
type alarm struct {
	ended <-chan struct{} // ends a wait early
	fd    int
	file  *os.File // nil: the system has none, so time.Timer has to do
}

func newAlarm(ended <-chan struct{}) *alarm {
	a := &alarm{ended: ended}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err == nil {
		a.fd, a.file = fd, os.NewFile(uintptr(fd), "timerfd")
	}
	return a
}

// wait returns at that time, or returns false when the link has ended. A long wait
// uses a timer for all but its last part, so that it can end early.
func (a *alarm) wait(due time.Time) bool {
	const exact = 10 * time.Millisecond
	left := time.Until(due)
	if left > exact || a.file == nil && left > 0 {
		rough := left
		if a.file != nil {
			rough -= exact / 2
		}
		if !sleep(rough, a.ended) {
			return false
		}
	}
	if left = time.Until(due); a.file != nil && left > 0 {
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(left.Nanoseconds())}
		var expirations [8]byte
		if unix.TimerfdSettime(a.fd, 0, &spec, nil) == nil {
			_, _ = a.file.Read(expirations[:])
		}
	}
	select {
	case <-a.ended:
		return false
	default:
		return true
	}
}

func (a *alarm) close() {
	if a.file != nil {
		_ = a.file.Close()
	}
}
