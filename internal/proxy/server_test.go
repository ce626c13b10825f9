package proxy

import (
	"net"
	"testing"
	"time"
)

// The proxy may be told to end while it starts.
func TestAServerThatWasShutDownBeforeItServesReturns(t *testing.T) {
	s := serve(t)
	s.Shutdown(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it accepts clients")
	}
}
