package proxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// downstreamBuffer is how many bytes of replies are collected before they are sent.
const downstreamBuffer = 16 << 10

// downstream collects replies to a client. The receiver of the upstream and the client's own
// goroutine both write to it, whole replies at a time or in turn (upstream.Conn orders them).
type downstream struct {
	nc  net.Conn
	mu  sync.Mutex
	buf []byte

	progress atomic.Uint64 // grows at the start and the end of each write to nc: odd within one
}

// piece is the most that is written to a client at a time, so that its progress shows.
const piece = 1 << 20

// send writes to the client.
func (d *downstream) send(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), piece)
		d.progress.Add(1)
		_, err := d.nc.Write(p[:n])
		d.progress.Add(1)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Write implements upstream.Downstream.
func (d *downstream) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.buf)+len(p) > downstreamBuffer {
		if err := d.flush(); err != nil {
			return 0, err
		}
		if len(p) > downstreamBuffer {
			return len(p), d.send(p)
		}
	}
	d.buf = append(d.buf, p...)
	return len(p), nil
}

// Flush implements upstream.Downstream.
func (d *downstream) Flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.flush()
}

func (d *downstream) flush() error {
	if len(d.buf) == 0 {
		return nil
	}
	err := d.send(d.buf)
	d.buf = d.buf[:0]
	return err
}
