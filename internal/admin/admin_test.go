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
	"time"

	"go.uber.org/goleak"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is an admin server of a proxy that does as the test says.
type scene struct {
	*Server
	t      *testing.T
	status *status.Collector
	guard  *fakeGuard
	down   atomic.Bool
}

// fakeGuard remembers what was broken.
type fakeGuard struct {
	broken []status.Name
	grants []uint64
	newest uint64 // of any session
}

func (g *fakeGuard) Explain(_ context.Context, db int, key string) (Explanation, error) {
	if key == "reserved" {
		return Explanation{Why: "it is reserved"}, nil
	}
	return Explanation{Key: key, DB: db, Rule: "chat", Session: key, Guarded: true}, nil
}

func (g *fakeGuard) Record(context.Context, status.Name) (Record, error) {
	return Record{Grant: g.newest}, nil
}

func (g *fakeGuard) Break(_ context.Context, session status.Name, grant uint64, _ string) (Broken, error) {
	if grant > 0 && grant != g.newest {
		return Broken{}, ErrOther
	}
	g.broken, g.grants = append(g.broken, session), append(g.grants, grant)
	return Broken{Broken: true, Holder: &status.Party{Name: "holder"}}, nil
}

const secret = "0123456789abcdef"

func start(t *testing.T, edits ...func(*Options)) *scene {
	t.Helper()
	s := &scene{t: t, status: status.New(func(string) status.Terms { return status.Terms{} }), guard: &fakeGuard{newest: 10}}
	o := Options{
		Network: "tcp", Address: "127.0.0.1:0", Status: s.status, Guard: s.guard,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "m 1\n") }),
		About:   func() About { return About{Name: "here", Rules: []string{"chat"}} },
		Config: func() (Config, error) {
			return Config{File: "x.yaml", Restart: []string{"listen"}, Failed: "a\nb", YAML: []byte("name: here\n")}, nil
		},
		Token: func() (string, error) { return secret, nil },
		Ready: func(context.Context) error {
			if s.down.Load() {
				return errors.New("no Redis")
			}
			return nil
		},
	}
	for _, edit := range edits {
		edit(&o)
	}
	var err error
	if s.Server, err = Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		s.Close(ctx)
	})
	return s
}

// asks sends a request over a connection of its own. The caller closes the answer's body.
func (s *scene) asks(ctx context.Context, method, path, body string, edits ...func(*http.Request)) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, edit := range edits {
		edit(r)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// does sends a request and reads all of the answer.
func (s *scene) does(method, path, body string, edits ...func(*http.Request)) (status int, text string, head http.Header) {
	s.t.Helper()
	answer := s.asks(s.t.Context(), method, path, body, edits...)
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(all), answer.Header
}

func (s *scene) gets(path string, want int, edits ...func(*http.Request)) string {
	s.t.Helper()
	got, text, _ := s.does(http.MethodGet, path, "", edits...)
	if got != want {
		s.t.Errorf("%s: %d %s, want %d", path, got, text, want)
	}
	return text
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// hold tells of a hold, and returns its session's id.
func (s *scene) hold(session string, grant uint64) string {
	s.t.Helper()
	s.status.Event(&event.Event{
		Kind: event.Grant, Sequence: grant, Rule: "chat", Session: session, Grant: grant, Command: "GET", At: time.Now(),
		Owner: event.Party{Proxy: "here", Client: "10.0.0.1:1", Owner: "o"},
	})
	return s.status.Holds(status.Query{Text: session[:min(len(session), 50)], Limit: 1}).Items[0].ID.String()
}

func TestPagesSayHowTheProxyIs(t *testing.T) {
	s := start(t)
	want := func(path string, status int, text string) {
		t.Helper()
		if body := s.gets(path, status); text != "" && body != text {
			t.Errorf("%s: %q, want %q", path, body, text)
		}
	}
	want("/healthz", 200, "ok\n")
	want("/readyz", 200, "ok\n")
	want("/metrics", 200, "m 1\n")
	want("/nowhere", 404, "")
	want("/debug/pprof/", 404, "")
	s.down.Store(true)
	want("/healthz", 200, "ok\n")
	want("/readyz", 503, "no Redis\n")
	config := s.gets("/config", 200)
	for _, part := range []string{"from x.yaml", "another listen", "not taken over: a; b", "name: here"} {
		if !strings.Contains(config, part) {
			t.Errorf("/config has no %q:\n%s", part, config)
		}
	}
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

func TestProfilesAreServedWhenAskedFor(t *testing.T) {
	s := start(t, func(o *Options) { o.Pprof = true })
	if text := s.gets("/debug/pprof/", 200); !strings.Contains(text, "goroutine") {
		t.Error(text)
	}
	s.gets("/debug/pprof/goroutine", 200)
	s.gets("/debug/pprof/cmdline", 404) // a password may be on it
}

// All that the page is made of is here, and its policy lets it use nothing else.
func TestThePageIsCompleteAndClosed(t *testing.T) {
	s := start(t)
	code, page, head := s.does(http.MethodGet, "/", "")
	if code != 200 || head.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%d %v", code, head)
	}
	for name, part := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self';", "X-Content-Type-Options": "nosniff",
		"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if !strings.Contains(head.Get(name), part) {
			t.Errorf("%s: %s", name, head.Get(name))
		}
	}
	if strings.Contains(head.Get("Content-Security-Policy"), "unsafe") || strings.Contains(page, "style=") || strings.Contains(page, " onclick") {
		t.Error("something inline is allowed, or used")
	}
	for _, file := range []string{"style.css", "app.js", "dom.js", "chart.js", "detail.js", "format.js", "icon.svg"} {
		code, text, head := s.does(http.MethodGet, "/page/"+file, "")
		if code != 200 || strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), "://") {
			t.Errorf("%s: %d, or it names something elsewhere", file, code)
		}
		if again, _, _ := s.does(http.MethodGet, "/page/"+file, "", header("If-None-Match", head.Get("ETag"))); again != http.StatusNotModified {
			t.Errorf("%s, which the browser has: %d", file, again)
		}
	}
}

// A page may have its own name point at this address; what it reads would then be its own.
func TestAHostThatIsNotKnownIsRefused(t *testing.T) {
	s := start(t, func(o *Options) { o.Hosts = []string{"Fence.Internal.example"} })
	for _, known := range []string{"127.0.0.1:9380", "[::1]:9380", "10.1.2.3", "localhost:1", "LOCALHOST", "a.localhost:9", "fence.internal.example:9380"} {
		s.gets("/api/v1/overview", 200, host(known))
		s.gets("/", 200, host(known))
	}
	for _, other := range []string{"evil.example", "evil.example:9380", "localhost.evil.example", "127.0.0.1.evil.example", "fence.internal.example.evil.example"} {
		for _, path := range []string{"/", "/api/v1/overview", "/config", "/page/app.js", "/api/v1/stream"} {
			if text := s.gets(path, http.StatusMisdirectedRequest, host(other)); !strings.Contains(text, "admin_hosts") {
				t.Error(text)
			}
		}
		s.gets("/healthz", 200, host(other)) // of probes, which name whatever they like
		s.gets("/metrics", 200, host(other))
	}
}

func TestOtherSitesReadNothing(t *testing.T) {
	s := start(t)
	for _, site := range []string{"cross-site", "same-site"} {
		s.gets("/api/v1/holds", 403, header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", "no-cors"))
		s.gets("/", 200, header("Sec-Fetch-Site", site), header("Sec-Fetch-Mode", "navigate"))
	}
	s.gets("/api/v1/holds", 200, header("Sec-Fetch-Site", "same-origin"))
	_, _, head := s.does(http.MethodGet, "/api/v1/holds", "", header("Origin", "http://evil.example"))
	if head.Get("Access-Control-Allow-Origin") != "" {
		t.Error("another origin may read")
	}
}
