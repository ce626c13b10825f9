package app

import (
	"fmt"
	"net"
	"os"
	"sync"
)

// listen begins to listen where clients may connect, with and without TLS.
func (p *Proxy) listen() (net.Listener, error) {
	all := newListeners()
	if network, address := p.cfg.ListenAddress(); address != "" {
		if network == "unix" {
			if err := removeStale(address); err != nil {
				return nil, err
			}
		}
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		all.add(l)
		if mode, ok := p.cfg.ListenMode(); ok {
			if err := os.Chmod(address, mode); err != nil {
				_ = all.Close()
				return nil, fmt.Errorf("listen: %w", err)
			}
		}
	}
	if t := p.cfg.TLS; t.Listen != "" {
		l, err := net.Listen("tcp", t.Listen)
		if err == nil {
			if covered, bad := t.Server().Listener(l, p.log); bad == nil {
				all.add(covered)
			} else {
				_, err = l.Close(), bad
			}
		}
		if err != nil {
			_ = all.Close()
			return nil, fmt.Errorf("tls.listen: %w", err)
		}
	}
	return all, nil
}

// listeners are several as one.
type listeners struct {
	all      []net.Listener
	accepted chan accepted
	closed   chan struct{}
	once     sync.Once
	begin    sync.Once
}

type accepted struct {
	nc  net.Conn
	err error
}

func newListeners() *listeners {
	return &listeners{accepted: make(chan accepted), closed: make(chan struct{})}
}

func (l *listeners) add(one net.Listener) { l.all = append(l.all, one) }

// Accept implements net.Listener.
func (l *listeners) Accept() (net.Conn, error) {
	if len(l.all) == 1 {
		return l.all[0].Accept()
	}
	l.begin.Do(func() {
		for _, one := range l.all {
			go l.accept(one)
		}
	})
	select {
	case a := <-l.accepted:
		return a.nc, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// accept takes what comes to one listener until all are closed.
func (l *listeners) accept(one net.Listener) {
	for {
		nc, err := one.Accept()
		select {
		case l.accepted <- accepted{nc, err}:
		case <-l.closed:
			if err == nil {
				_ = nc.Close()
			}
			return
		}
	}
}

// Close implements net.Listener.
func (l *listeners) Close() (err error) {
	l.once.Do(func() {
		close(l.closed)
		for _, one := range l.all {
			err = one.Close()
		}
	})
	return err
}

// Addr implements net.Listener.
func (l *listeners) Addr() net.Addr { return l.all[0].Addr() }
