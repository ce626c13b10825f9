package provider

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnanswered ends a connection when the other side has confirmed nothing that was sent for that long: the
// kernel sends again for a quarter of an hour, and keep-alive only looks after connections on which all was confirmed.
func limitUnanswered(_, _ string, raw syscall.RawConn) error {
	const limit = 20 * time.Second
	var err error
	controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	})
	if controlErr != nil {
		return controlErr
	}
	return err
}
