package health

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

const patience = 30 * time.Second

// watch has a probe watch an agent, and returns what it is told.
func watch(t *testing.T, p Probe) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, done := make(chan error, 10), make(chan struct{})
	go func() {
		defer close(done)
		p.Watch(ctx, func(why error) { told <- why })
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return told
}

// hears waits for the next that a probe is told.
func hears(t *testing.T, told <-chan error, healthy bool) {
	t.Helper()
	select {
	case why := <-told:
		if (why == nil) != healthy {
			t.Fatalf("it is told %v", why)
		}
	case <-time.After(patience):
		t.Fatal("it is told nothing")
	}
}

func TestAnAgentIsIllAfterSoManyFailuresAndHealthyWithTheNextAnswer(t *testing.T) {
	var status, asked atomic.Int64
	status.Store(200)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(int(status.Load()))
	}))
	defer agent.Close()
	told := watch(t, Probe{HTTP: agent.URL, Interval: time.Millisecond, Timeout: patience, Failures: 3})
	hears(t, told, true)
	for _, bad := range []int64{500, 404} {
		before := asked.Load()
		status.Store(bad)
		hears(t, told, false)
		if n := asked.Load() - before; n < 3 {
			t.Errorf("ill after %d questions", n)
		}
		status.Store(302) // it is not followed
		hears(t, told, true)
	}
}

func TestAnAgentThatTakesNoConnectionsOrAnswersNothingIsIll(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := watch(t, Probe{HTTP: "http://" + l.Addr().String(), Interval: time.Millisecond, Timeout: 10 * time.Millisecond, Failures: 1})
	hears(t, silent, false)
	told := watch(t, Probe{TCP: l.Addr().String(), Interval: time.Millisecond, Timeout: patience, Failures: 1})
	hears(t, told, true)
	_ = l.Close()
	hears(t, told, false)
}
