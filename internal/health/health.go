// Package health tells whether the agent that a proxy serves is healthy, by asking it from time to time: over HTTP, or by
// connecting to it.
//
//	unknown ──answer──▶ healthy ──failures in a row──▶ unhealthy ──answer──▶ healthy
//
// An agent that has not answered yet counts as healthy until it has failed as often as is allowed.
package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Probe says how to ask, and how often. HTTP or TCP is set, or both, and then both have to be healthy.
type Probe struct {
	HTTP     string        // a URL; healthy is an answer of 200 to 399
	TCP      string        // host:port; healthy is that it takes connections
	Interval time.Duration // between two questions
	Timeout  time.Duration // of one
	Failures int           // in a row, after which it is unhealthy
}

// Watch asks until ctx ends. It calls change from its own goroutine whenever the agent becomes unhealthy (why is set) or healthy
// again (nil), and once with its first answer.
func (p Probe) Watch(ctx context.Context, change func(why error)) {
	failed, known, healthy := 0, false, true
	client := &http.Client{ // it goes straight to the agent, on a new connection each time: one that lingers proves nothing
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := p.ask(ctx, client)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failed = 0; !known || !healthy {
				known, healthy = true, true
				change(nil)
			}
		default:
			if failed++; failed >= p.Failures && healthy {
				known, healthy = true, false
				change(err)
			}
		}
		t.Reset(p.Interval)
	}
}

// ask asks once.
func (p Probe) ask(ctx context.Context, client *http.Client) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	if p.TCP != "" {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", p.TCP)
		if err != nil {
			return err
		}
		_ = nc.Close()
	}
	if p.HTTP == "" {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.HTTP, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, bodyMost)
	if answer.StatusCode < 200 || answer.StatusCode > 399 {
		return fmt.Errorf("GET %s: %s", p.HTTP, answer.Status)
	}
	return nil
}

// bodyMost bounds what is read of an answer.
const bodyMost = 64 << 10
