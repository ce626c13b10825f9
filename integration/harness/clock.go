package harness

import (
	_ "embed" // the library's source
	native "encoding/binary"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// Clock is a wall clock that can be stepped under a server's feet, see [WithClock]. The monotonic clock is left alone, as
// when an operator or NTP sets the time. Its offset stays when the server restarts.
//
// A small library (testdata/clock.c) stands before the C library's functions and adds an offset that it reads from a
// file. That works for programs that ask the C library, as redis-server does, not for those in Go. It needs a C compiler.
type Clock struct {
	tb     testing.TB
	file   *os.File
	offset atomic.Int64 // nanoseconds
	env    []string
}

// NewClock makes a clock that is right. It ends with the test, and a server that uses it has to end before.
func NewClock(tb testing.TB) *Clock {
	tb.Helper()
	path := filepath.Join(shortTempDir(tb), "offset")
	file, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = file.Close() })
	c := &Clock{tb: tb, file: file, env: []string{"LD_PRELOAD=" + buildLibrary(tb, "clock", clockSource), "CLOCK_OFFSET=" + path}}
	c.Step(0)
	return c
}

// Step sets the clock forward, or back.
func (c *Clock) Step(by time.Duration) {
	c.tb.Helper()
	offset := c.offset.Add(int64(by))
	b, err := native.Append(nil, native.NativeEndian, offset)
	if err == nil {
		_, err = c.file.WriteAt(b, 0)
	}
	if err != nil {
		c.tb.Fatal(err)
	}
}
