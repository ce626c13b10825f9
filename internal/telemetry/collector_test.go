package telemetry

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// listen starts a collector that does this with each connection, and returns its URL.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			served.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		served.Wait()
	})
	return "http://" + l.Addr().String()
}

// A collector that takes all and says nothing, one that closes each connection, and none at all. The guard is not kept
// waiting, or this test would not end.
func TestADeadCollectorCostsTheGuardNothing(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"it never answers": func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
		"it closes":        func(conn net.Conn) { _ = conn.Close() },
		"it is not there":  nil,
	} {
		for _, protocol := range []string{protocolGRPC, protocolHTTP} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				alone(t)
				endpoint := "http://127.0.0.1:1"
				if serve != nil {
					endpoint = listen(t, serve)
				}
				sends, err := Start(t.Context(), Options{Settings: Settings{Endpoint: endpoint, Protocol: protocol, Traces: true, Sample: 1}})
				if err != nil {
					t.Fatal(err)
				}
				tracer := sends.Trace(Tracing{Salt: "salt"})
				before := heap()
				for round := uint64(0); ; round++ {
					for i := range uint64(1000) {
						n := round*1000 + i + 1
						for _, kind := range []event.Kind{event.Grant, event.Read, event.Commit, event.Release, event.Refuse} {
							tracer.Event(&event.Event{Kind: kind, At: time.Now(), Sequence: n, Rule: "chat", Session: fmt.Sprint(n), Grant: n})
						}
					}
					sequences, spans := sends.Lost()
					if round >= 10 && (sequences > 0 || spans > 0) {
						break
					}
					runtime.Gosched()
				}
				if grown := int64(heap()) - int64(before); grown > 64<<20 {
					t.Errorf("%d MiB are kept", grown>>20)
				}
				ended, end := context.WithCancel(t.Context())
				end()
				sends.Close(ended)
			})
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
