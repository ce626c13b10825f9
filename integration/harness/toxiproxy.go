package harness

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Toxiproxy is a network between a client and a server that fails as Shopify's toxiproxy, which is made for that, has it fail.
// [Relay] can do more: count round trips, remember, and deliver later what was sent before a cut.
type Toxiproxy struct {
	Addr string

	tb    testing.TB
	proxy *toxiproxy.Proxy
}

// Toxic is a way to fail; see https://github.com/Shopify/toxiproxy#toxics for what there is.
type Toxic struct {
	Type       string         `json:"type"`
	Stream     string         `json:"stream"` // upstream: to the server, or downstream
	Attributes map[string]int `json:"attributes"`
}

// StartToxiproxy starts one in front of a "host:port", on a free port, without toxics. It closes when the test ends.
func StartToxiproxy(tb testing.TB, target string) *Toxiproxy {
	tb.Helper()
	metrics := toxiproxy.NewMetricsContainer(nil)
	server := toxiproxy.NewServer(metrics, zerolog.Nop())
	p := toxiproxy.NewProxy(server, "way", loopback(FreePort(tb)), target)
	if err := p.Start(); err != nil {
		tb.Fatalf("start toxiproxy: %v", err)
	}
	x := &Toxiproxy{Addr: p.Listen, tb: tb, proxy: p}
	tb.Cleanup(x.Close)
	return x
}

// URL is its address as an upstream URL.
func (x *Toxiproxy) URL() string { return "redis://" + x.Addr }

// Add adds a toxic to all connections, open and to come, and returns what takes it away again.
func (x *Toxiproxy) Add(t Toxic) (remove func()) {
	x.tb.Helper()
	text, err := json.Marshal(t)
	if err != nil {
		x.tb.Fatal(err)
	}
	added, err := x.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	if err != nil {
		x.tb.Fatalf("add toxic %s: %v", text, err)
	}
	return func() {
		if err := x.proxy.Toxics.RemoveToxic(context.Background(), added.Name); err != nil {
			x.tb.Errorf("remove toxic %s: %v", text, err)
		}
	}
}

// Close ends all connections.
func (x *Toxiproxy) Close() { x.proxy.Stop() }
