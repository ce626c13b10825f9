package proxy

import (
	"net"
	"sync"
)

// downstreamBuffer is how many bytes of replies are collected before they are sent.
const downstreamBuffer = 16 << 10

// downstream collects replies to a client. The receiver of the upstream and the client's own
// goroutine both write to it, whole replies at a time or in turn (upstream.Conn orders them).
type downstream struct {
	nc  net.Conn
	mu  sync.Mutex
	buf []byte
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
			return d.nc.Write(p)
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
	_, err := d.nc.Write(d.buf)
	d.buf = d.buf[:0]
	return err
}
