package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// page gets one page over a connection of its own.
func page(t *testing.T, s *Server, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + s.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

func TestPagesSayHowTheProxyIs(t *testing.T) {
	var down atomic.Bool
	s, err := Start(t.Context(), Options{
		Network: "tcp", Address: "127.0.0.1:0",
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "m 1\n") }),
		Ready: func(context.Context) error {
			if down.Load() {
				return errors.New("no Redis")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	want := func(path string, status int, text string) {
		t.Helper()
		if got, body := page(t, s, path); got != status || text != "" && body != text {
			t.Errorf("%s: %d %q, want %d %q", path, got, body, status, text)
		}
	}
	want("/healthz", 200, "ok\n")
	want("/readyz", 200, "ok\n")
	want("/metrics", 200, "m 1\n")
	want("/", 404, "")
	down.Store(true)
	want("/healthz", 200, "ok\n")
	want("/readyz", 503, "no Redis\n")
}

func TestAnAddressThatIsTakenIsRefusedWithARemedy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(t.Context(), Options{Network: "tcp", Address: l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "address already in use: give admin (FENCE_ADMIN, --admin) an address of its own") {
		t.Errorf("got %v", err)
	}
}
