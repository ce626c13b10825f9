package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/status"
)

// breaks asks for a hold to be broken.
func (s *scene) breaks(body string, edits ...func(*http.Request)) (int, string) {
	s.t.Helper()
	edits = append([]func(*http.Request){header("Content-Type", "application/json")}, edits...)
	code, text, _ := s.does(http.MethodPost, "/api/v1/break", body, edits...)
	return code, text
}

func bearer(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }

func TestBreakingAHoldNeedsTheToken(t *testing.T) {
	s := start(t)
	order := fmt.Sprintf(`{"id":%q,"grant":10}`, s.hold("42", 10))
	for name, edit := range map[string]func(*http.Request){
		"none":            func(*http.Request) {},
		"another":         bearer("0123456789abcdeX"),
		"a part":          bearer(secret[:8]),
		"more":            bearer(secret + "0"),
		"an empty one":    bearer(""),
		"another scheme":  header("Authorization", "Basic "+secret),
		"in a cookie":     header("Cookie", "Authorization=Bearer "+secret),
		"without a blank": header("Authorization", "Bearer"+secret),
	} {
		if code, text := s.breaks(order, edit); code != 401 || !strings.Contains(text, "token") {
			t.Errorf("with a token that is %s: %d %s", name, code, text)
		}
	}
	if len(s.guard.broken) > 0 {
		t.Fatalf("broken without the token: %v", s.guard.broken)
	}
	code, text := s.breaks(order, bearer(secret))
	if code != 200 || !strings.Contains(text, `"broken":true`) || len(s.guard.broken) != 1 || s.guard.broken[0] != (status.Name{Rule: "chat", Session: "42"}) || s.guard.grants[0] != 10 {
		t.Errorf("%d %s, %+v %v", code, text, s.guard.broken, s.guard.grants)
	}
}

func TestWithoutATokenInTheConfigurationNobodyBreaksAHold(t *testing.T) {
	s := start(t, func(o *Options) { o.Token = func() (string, error) { return "", nil } })
	order := fmt.Sprintf(`{"id":%q}`, s.hold("42", 10))
	for _, edit := range []func(*http.Request){func(*http.Request) {}, bearer(""), bearer(secret)} {
		if code, text := s.breaks(order, edit); code != 403 || !strings.Contains(text, "read-only") {
			t.Errorf("%d %s", code, text)
		}
	}
	if len(s.guard.broken) > 0 {
		t.Error("it was broken")
	}
	if text := s.gets("/api/v1/overview", 200); !strings.Contains(text, `"can_break":false`) {
		t.Error(text)
	}
}

// Even one that knew the token.
func TestAnotherSitesPageBreaksNothing(t *testing.T) {
	s := start(t)
	order := fmt.Sprintf(`{"id":%q}`, s.hold("42", 10))
	for name, edit := range map[string]func(*http.Request){
		"its origin":    header("Origin", "http://evil.example"),
		"what it is":    header("Sec-Fetch-Site", "cross-site"),
		"a neighbour":   header("Sec-Fetch-Site", "same-site"),
		"its own name":  host("evil.example"),
		"a form's type": header("Content-Type", "text/plain"),
	} {
		if code, text := s.breaks(order, bearer(secret), edit); code == 200 {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if len(s.guard.broken) > 0 {
		t.Error("it was broken")
	}
	if code, text := s.breaks(order, bearer(secret), header("Sec-Fetch-Site", "same-origin")); code != 200 {
		t.Errorf("the page itself: %d %s", code, text)
	}
}

func TestAHoldIsBrokenThatIsMeant(t *testing.T) {
	s := start(t)
	id := s.hold("42", 10)
	for body, want := range map[string]int{
		fmt.Sprintf(`{"id":%q,"grant":9}`, id):      409,
		`{"id":"ffffffffffffffff"}`:                 404,
		`{"id":"x"}`:                                400,
		`{}`:                                        400,
		fmt.Sprintf(`{"id":%q,"key":"k"}`, id):      400,
		fmt.Sprintf(`{"id":%q,"session":"42"}`, id): 400,
		`{"key":"reserved"}`:                        400,
		`{"key":"any","db":3}`:                      200,
	} {
		if code, text := s.breaks(body, bearer(secret)); code != want {
			t.Errorf("%s: %d %s, want %d", body, code, text, want)
		}
	}
	if len(s.guard.broken) != 1 || s.guard.broken[0] != (status.Name{DB: 3, Rule: "chat", Session: "any"}) {
		t.Errorf("%+v", s.guard.broken)
	}
	long := s.hold(strings.Repeat("x", 1000), 11)
	if code, text := s.breaks(fmt.Sprintf(`{"id":%q}`, long), bearer(secret)); code != 400 || !strings.Contains(text, "too long") {
		t.Errorf("%d %s", code, text)
	}
}

func TestListsSayWhatIsWrongWithAQuestion(t *testing.T) {
	s := start(t)
	for _, path := range []string{
		"holds?limit=501", "holds?limit=x", "holds?offset=-1", "holds?sort=colour", "holds?order=up", "holds?colour=red", "queues?sort=age",
		"refusals?after=x", "refusals/x", "series?step=7", "series?step=0", "hot?limit=1000", "sessions/x", "explain", "explain?key=k&db=x",
	} {
		if text := s.gets("/api/v1/"+path, 400); !strings.Contains(text, `{"error":"`) {
			t.Errorf("%s: %s", path, text)
		}
	}
	for _, path := range []string{"refusals/1", "sessions/00000000000000ff", "nothing"} {
		s.gets("/api/v1/"+path, 404)
	}
	if code, _, _ := s.does(http.MethodGet, "/api/v1/break", ""); code == 200 {
		t.Error("a hold can be broken by GET")
	}
}

func TestAnEmptyProxyHasEmptyLists(t *testing.T) {
	s := start(t)
	for path, want := range map[string]string{
		"holds": `"items":[]`, "queues": `"items":[]`, "refusals": `"items":[]`, "hot": `"items":[]`, "series": `"points":[{`,
	} {
		if text := s.gets("/api/v1/"+path, 200); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestASessionShowsWhatIsKnownHereAndAtTheStore(t *testing.T) {
	s := start(t)
	text := s.gets("/api/v1/sessions/"+s.hold("42", 10), 200)
	for _, part := range []string{`"state":"holding"`, `"record":{"grant":10`, `"session":"42"`} {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %s in %s", part, text)
		}
	}
}

// message is one of a stream.
type message struct{ event, id, data string }

// listen hears a stream until the test ends.
func (s *scene) listen(edits ...func(*http.Request)) <-chan message {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	answer := s.asks(ctx, http.MethodGet, "/api/v1/stream", "", edits...)
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatal(answer.Status)
	}
	heard := make(chan message, 1000)
	go func() {
		defer close(heard)
		var m message
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				m.event = value
			case "id":
				m.id = value
			case "data":
				m.data = value
			case "":
				if m.event != "" {
					heard <- m
				}
				m = message{}
			}
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		_ = answer.Body.Close()
		for range heard { // until it is closed
		}
	})
	return heard
}

// next waits for a message of a kind.
func next(t *testing.T, heard <-chan message, kind string) message {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case m, open := <-heard:
			if !open {
				t.Fatalf("the stream has ended before any %s", kind)
			}
			if m.event == kind {
				return m
			}
		case <-late:
			t.Fatalf("no %s came", kind)
		}
	}
}

func (s *scene) refuse(n int) {
	for range n {
		s.status.Event(&event.Event{Kind: event.Refuse, Error: "FENCED", Reason: "superseded", Rule: "chat", Session: "42", At: time.Now()})
	}
}

func TestAStreamTellsOfRefusalsAsTheyCome(t *testing.T) {
	s := start(t)
	s.refuse(1) // before: it is in the list
	heard := s.listen()
	var o Overview
	if err := json.Unmarshal([]byte(next(t, heard, "overview").data), &o); err != nil || o.About.Name != "here" || !o.Ready || o.Now.LastRefusal != 1 {
		t.Errorf("%v, %+v", err, o)
	}
	s.refuse(2)
	for _, want := range []string{"2", "3"} {
		if m := next(t, heard, "refusal"); m.id != want || !strings.Contains(m.data, `"error":"FENCED"`) {
			t.Errorf("%+v, want %s", m, want)
		}
	}
	next(t, heard, "overview") // and goes on
}

func TestWhoComesBackHearsOfWhatWasMissed(t *testing.T) {
	s := start(t)
	s.refuse(5)
	heard := s.listen(header("Last-Event-ID", "3"))
	for _, want := range []string{"4", "5"} {
		if m := next(t, heard, "refusal"); m.id != want {
			t.Errorf("%+v, want %s", m, want)
		}
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	s := start(t)
	heard := s.listen()
	next(t, heard, "overview")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s.Close(ctx)
	if ctx.Err() != nil {
		t.Error("the server has waited for the stream")
	}
}

func TestOnlySoManyWatch(t *testing.T) {
	s := start(t)
	for range streamsMost {
		next(t, s.listen(), "overview")
	}
	if text := s.gets("/api/v1/stream", 503); !strings.Contains(text, "too many") {
		t.Error(text)
	}
}

func TestAClientUnderstandsTheServer(t *testing.T) {
	s := start(t)
	s.hold("42", 10)
	s.refuse(1)
	c := NewClient("tcp", s.Addr().String())
	defer c.Close()
	if o, err := c.Overview(t.Context()); err != nil || o.About.Name != "here" {
		t.Errorf("%v, %+v", err, o)
	}
	if p, err := c.Holds(t.Context(), url.Values{"limit": {"1"}}); err != nil || p.Total != 1 || p.Items[0].Grant != 10 {
		t.Errorf("%v, %+v", err, p)
	}
	if p, err := c.Refusals(t.Context(), nil); err != nil || p.Items[0].Error != "FENCED" {
		t.Errorf("%v, %+v", err, p)
	}
	if e, err := c.Explain(t.Context(), url.Values{"key": {"k"}}); err != nil || e.Rule != "chat" {
		t.Errorf("%v, %+v", err, e)
	}
	if _, err := c.Holds(t.Context(), url.Values{"limit": {"x"}}); err == nil || !strings.Contains(err.Error(), "limit is no number") {
		t.Error(err)
	}
	s.Close(t.Context())
	if _, err := c.Overview(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "no answer from the admin address "+s.Addr().String()) {
		t.Error(err)
	}
}
