//go:build integration

package integration

import (
	"net/http"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Idle clients are the most there are: agents think.
func TestAnIdleConnectionTakesNoBuffers(t *testing.T) {
	t.Parallel()
	const (
		clients = 500
		most    = 20 << 10 // bytes each: 10 KiB, 14 with the race detector's own, and no buffer of 16 KiB

		// As often as within some minutes in which nothing happens: a collection halves a stack that has become large, and gives
		// up half of what pools keep.
		collections = 4
	)
	server := harness.StartRedis(t)
	p := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: "admin_pprof: true\nrules: [{name: ctx, prefix: \"ctx:\"}]\n"})
	used := func() float64 {
		for range collections {
			if status, _ := p.Page("/debug/pprof/heap?gc=1"); status != http.StatusOK {
				t.Fatalf("its heap is not to be had: %d", status)
			}
		}
		return p.Metric("go_memstats_heap_alloc_bytes") + p.Metric("go_memstats_stack_inuse_bytes")
	}
	come := func() {
		if got := string(harness.Dial(t, p.Addr).Do("SET", "plain", "v")); got != "+OK\r\n" {
			t.Fatalf("SET: %q", got)
		}
	}
	come()
	before := used()
	for range clients {
		come()
	}
	if each := (used() - before) / clients; each > most {
		t.Errorf("an idle connection takes %.0f bytes, want %d at most", each, most)
	}
}
