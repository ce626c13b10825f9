package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

// stage is a proxy's tracer, and what it sends.
type stage struct {
	*Tracer
	sent *tracetest.InMemoryExporter
}

func newStage(t *testing.T, notes Notes, options ...sdktrace.TracerProviderOption) *stage {
	t.Helper()
	s := &stage{sent: tracetest.NewInMemoryExporter()}
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSyncer(s.sent), sdktrace.WithIDGenerator(generator{}))...)
	s.Tracer = (&Tracer{ids: newIDs("salt"), tracer: provider.Tracer("test"), notes: notes, common: []attribute.KeyValue{semconv.DBSystemNameRedis}}).begin()
	t.Cleanup(func() { s.Close() })
	return s
}

// ends closes the tracer and returns what it has sent.
func (s *stage) ends() tracetest.SpanStubs {
	s.Close()
	return s.sent.GetSpans()
}

// plot is how a test tells a story: each line is an event, a second after the one before.
type plot struct {
	stage  *stage
	at     time.Time
	common event.Event
}

func (s *stage) plot(sequence uint64, client string) *plot {
	return &plot{stage: s, at: time.Unix(1_800_000_000, 0), common: event.Event{
		Sequence: sequence, Rule: "chat", Mode: "lock", Kept: "auto", Session: "secret-session", DB: 3,
		Owner: event.Party{Proxy: "p", Client: client, Name: "secret-name"},
	}}
}

func (p *plot) tells(kind event.Kind, with event.Event) {
	e := with
	p.at = p.at.Add(time.Second)
	e.Kind, e.At, e.Sequence, e.Rule, e.Mode, e.Kept, e.Session, e.DB, e.Owner = kind, p.at, p.common.Sequence, p.common.Rule, p.common.Mode,
		p.common.Kept, p.common.Session, p.common.DB, p.common.Owner
	if p.common.Trace.IsValid() {
		e.Trace = p.common.Trace
	}
	p.stage.Event(&e)
}

// find returns the one span of a name.
func find(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	all := slices.DeleteFunc(slices.Clone(spans), func(s tracetest.SpanStub) bool { return s.Name != name })
	if len(all) != 1 {
		t.Fatalf("%d spans %q among %v", len(all), name, names(spans))
	}
	return all[0]
}

func names(spans tracetest.SpanStubs) []string {
	var all []string
	for i := range spans {
		all = append(all, spans[i].Name)
	}
	slices.Sort(all)
	return all
}

func value(attrs []attribute.KeyValue, key string) string {
	for _, a := range attrs {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func TestASequenceIsASpanWithItsStepsForChildren(t *testing.T) {
	s := newStage(t, nil)
	p := s.plot(1, "127.0.0.1:4711")
	began := p.at
	p.tells(event.Wait, event.Event{Other: event.Party{Proxy: "q", Grant: 6}, Command: "GET"})
	p.tells(event.Grant, event.Event{Grant: 7, Took: time.Second, Other: event.Party{Proxy: "q", Grant: 6}, Command: "GET"})
	p.tells(event.Read, event.Event{Grant: 7, Took: 10 * time.Millisecond, Command: "GET"})
	p.tells(event.Renew, event.Event{Grant: 7})
	p.tells(event.Commit, event.Event{Grant: 7, Seq: 1, Took: 20 * time.Millisecond, Command: "SET"})
	p.tells(event.Release, event.Event{Grant: 7, Took: 4 * time.Second, Reason: "commit"})
	spans := s.ends()
	if got, want := names(spans), []string{"acquire", "commit", "read", "release", "sequence chat", "wait"}; !slices.Equal(got, want) {
		t.Fatalf("spans %v, want %v", got, want)
	}
	root := find(t, spans, "sequence chat")
	for _, span := range spans {
		switch {
		case span.Name == root.Name:
		case span.Parent.SpanID() != root.SpanContext.SpanID() || span.SpanContext.TraceID() != root.SpanContext.TraceID():
			t.Errorf("%s is no child of the sequence", span.Name)
		case span.StartTime.Before(root.StartTime) || span.EndTime.After(root.EndTime):
			t.Errorf("%s is not within the sequence", span.Name)
		}
	}
	if root.StartTime != began.Add(time.Second) || root.EndTime != p.at || root.Status.Code != codes.Unset || root.SpanKind != trace.SpanKindServer {
		t.Errorf("%+v", root)
	}
	for key, want := range map[string]string{
		"db.system.name": "redis", "db.namespace": "3", "client.address": "127.0.0.1", "client.port": "4711",
		"fence.rule": "chat", "fence.mode": "lock", "fence.owner.kind": "auto", "fence.grant": "7",
	} {
		if got := value(root.Attributes, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	wait := find(t, spans, "wait")
	if wait.EndTime.Sub(wait.StartTime) != time.Second || value(wait.Attributes, "fence.holder.grant") != "6" {
		t.Errorf("%+v", wait)
	}
	commit := find(t, spans, "commit")
	if commit.EndTime.Sub(commit.StartTime) != 20*time.Millisecond || value(commit.Attributes, "db.operation.name") != "SET" ||
		value(commit.Attributes, "fence.seq") != "1" || commit.SpanKind != trace.SpanKindClient {
		t.Errorf("%+v", commit)
	}
	if release := find(t, spans, "release"); value(release.Attributes, "fence.reason") != "commit" || release.StartTime != release.EndTime {
		t.Errorf("%+v", release)
	}
}

// Who takes a free session does so with its first command.
func TestAFreeSessionIsAcquiredWithTheRead(t *testing.T) {
	s := newStage(t, nil)
	p := s.plot(1, "c:1")
	p.tells(event.Grant, event.Event{Grant: 7})
	p.tells(event.Read, event.Event{Grant: 7, Took: 1500 * time.Millisecond})
	p.tells(event.Release, event.Event{Grant: 7})
	spans := s.ends()
	acquire, read := find(t, spans, "acquire"), find(t, spans, "read")
	if acquire.StartTime != read.StartTime || !acquire.EndTime.Before(read.EndTime) {
		t.Errorf("acquired from %v to %v, read from %v to %v", acquire.StartTime, acquire.EndTime, read.StartTime, read.EndTime)
	}
	if slices.Contains(names(spans), "wait") {
		t.Error("it has waited")
	}
}

// Two proxies: A's hold ends at max_hold, B is granted the session, and A writes after that.
func TestTheSpansOfTwoProxiesTellWhichHoldSupersededWhich(t *testing.T) {
	for _, of := range []string{"neither is in an application's trace", "both are"} {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				notes := &shared{}
				a, b := newStage(t, notes), newStage(t, notes)
				pa, pb := a.plot(1, "a:1"), b.plot(1, "b:1")
				if of == "both are" {
					pa.common.Trace, pb.common.Trace = application(1), application(2)
				}
				pa.tells(event.Grant, event.Event{Grant: 100})
				pa.tells(event.Read, event.Event{Grant: 100, Command: "GET"})
				synctest.Wait()
				pb.tells(event.Wait, event.Event{Other: event.Party{Proxy: "A's", Grant: 100}})
				pa.tells(event.Break, event.Event{Grant: 100, Reason: "max_hold"})
				pb.tells(event.Grant, event.Event{Grant: 200, Took: time.Second, Other: event.Party{Proxy: "A's", Grant: 100}})
				time.Sleep(time.Minute) // A's span is sent
				pb.tells(event.Commit, event.Event{Grant: 200, Seq: 1, Command: "SET"})
				pb.tells(event.Release, event.Event{Grant: 200, Reason: "commit"})
				time.Sleep(time.Minute)
				if of == "neither is in an application's trace" {
					pa.tells(event.Refuse, event.Event{Grant: 100, Newest: 200, Error: "FENCED", Reason: "superseded", Command: "SET"})
				} else { // its proxy does not know by itself who came
					notes.mu.Lock()
					notes.next = 200
					notes.mu.Unlock()
					pa.tells(event.Refuse, event.Event{Grant: 100, Error: "FENCED", Reason: "max_hold", Command: "SET"})
				}

				ofA, ofB := a.ends(), b.ends()
				holdA, holdB, refused := find(t, ofA, "sequence chat"), find(t, ofB, "sequence chat"), find(t, ofA, "refuse")
				if refused.Parent.SpanID() != holdA.SpanContext.SpanID() || refused.SpanContext.TraceID() != holdA.SpanContext.TraceID() {
					t.Error("the refusal is not part of A's sequence")
				}
				linked(t, refused, holdB, "superseded_by")
				linked(t, holdB, holdA, "waited_for")
				for _, span := range []tracetest.SpanStub{holdA, refused} {
					if span.Status.Code != codes.Error {
						t.Errorf("%s is no error", span.Name)
					}
				}
				if value(refused.Attributes, "error.type") != "FENCED" || value(refused.Attributes, "db.operation.name") != "SET" {
					t.Errorf("%v", refused.Attributes)
				}
				if of == "both are" {
					for hold, in := range map[*tracetest.SpanStub]trace.SpanContext{&holdA: application(1), &holdB: application(2)} {
						if hold.SpanContext.TraceID() != in.TraceID() || hold.Parent.SpanID() != in.SpanID() {
							t.Errorf("the sequence is not in the application's trace: %+v", hold)
						}
					}
				}
			})
		})
	}
}

func linked(t *testing.T, from, to tracetest.SpanStub, why string) {
	t.Helper()
	for _, l := range from.Links {
		if l.SpanContext.SpanID() == to.SpanContext.SpanID() && l.SpanContext.TraceID() == to.SpanContext.TraceID() {
			if got := value(l.Attributes, "fence.link"); got != why {
				t.Errorf("%s is linked as %s, want %s", from.Name, got, why)
			}
			return
		}
	}
	t.Errorf("%s (%v) is not linked to %v: %v", from.Name, from.SpanContext, to.SpanContext, from.Links)
}

func application(n byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{15: n}, SpanID: trace.SpanID{7: n}, TraceFlags: trace.FlagsSampled, Remote: true})
}

// shared are notes that several proxies see.
type shared struct {
	mu    sync.Mutex
	notes map[hold]trace.TraceID
	next  uint64
}

func (s *shared) Keep(_ context.Context, notes []Note) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notes == nil {
		s.notes = map[hold]trace.TraceID{}
	}
	for _, n := range notes {
		s.notes[hold{n.DB, n.Slot, n.Rule, n.Session, n.Grant}] = n.Trace
	}
	return nil
}

func (s *shared) Find(_ context.Context, notes []Note) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range notes {
		notes[i].Trace = s.notes[hold{n.DB, n.Slot, n.Rule, n.Session, n.Grant}]
	}
	return nil
}

func (s *shared) Next(_ context.Context, notes []Note) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range notes {
		notes[i].Next = s.next
	}
	return nil
}

// A turn under mode fence: it reads without a hold, thinks, and is granted the session with its write.
func TestWhatIsReadWithoutAHoldAndItsWriteAreOneSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		p := s.plot(1, "c:1")
		p.tells(event.Read, event.Event{Command: "GET"})
		time.Sleep(patience / 2)
		p.tells(event.Commit, event.Event{Grant: 9, Seq: 1, Command: "SET"})
		spans := s.ends()
		root := find(t, spans, "sequence chat")
		if len(spans) != 3 || value(root.Attributes, "fence.grant") != "9" {
			t.Errorf("%v: %v", names(spans), root.Attributes)
		}
		if want := s.ids.ofHold(hold{3, "", "chat", "secret-session", 9}); root.SpanContext.SpanID() != want.span || root.SpanContext.TraceID() != want.trace {
			t.Error("others can't work its identity out")
		}
	})
}

// Two commands that were refused one after the other, and a third that was granted: none has the other's identity.
func TestWhatIsRefusedAndComesAgainIsAnotherSequence(t *testing.T) {
	s := newStage(t, nil)
	p := s.plot(1, "c:1")
	p.tells(event.Wait, event.Event{Other: event.Party{Grant: 5}})
	p.tells(event.Quit, event.Event{Reason: "timeout", Took: time.Second})
	p.tells(event.Refuse, event.Event{Error: "LOCKED", Reason: "timeout", Command: "GET", Other: event.Party{Grant: 5}})
	before := s.Span(1, trace.SpanContext{})
	p.tells(event.Grant, event.Event{Grant: 6})
	p.tells(event.Release, event.Event{Grant: 6})
	spans := s.ends()
	all := slices.DeleteFunc(slices.Clone(spans), func(s tracetest.SpanStub) bool { return s.Name != "sequence chat" })
	if len(all) != 2 || all[0].SpanContext.SpanID() == all[1].SpanContext.SpanID() {
		t.Fatalf("%v", names(spans))
	}
	if refused := all[0]; refused.SpanContext.SpanID() != before.SpanID() || refused.SpanContext.TraceID() != before.TraceID() || refused.Status.Code != codes.Error {
		t.Errorf("the log says %v of %+v", before, refused)
	}
	linked(t, all[1], all[0], "continues")
	if wait := find(t, spans, "wait"); wait.Status.Code != codes.Error || value(wait.Attributes, "error.type") != "timeout" {
		t.Errorf("%+v", wait)
	}
	if got := all[0].Links; len(got) != 1 || value(got[0].Attributes, "fence.link") != "waited_for" || value(got[0].Attributes, "fence.grant") != "5" {
		t.Errorf("%+v", got)
	}
}

// A grant that was handed on: what is done under it elsewhere is part of the sequence that acquired it.
func TestWhatIsDoneUnderAGrantIsPartOfItsSequence(t *testing.T) {
	for _, in := range []trace.SpanContext{{}, application(1)} {
		synctest.Test(t, func(t *testing.T) {
			notes := &shared{}
			a, b := newStage(t, notes), newStage(t, notes)
			pa, pb := a.plot(1, "a:1"), b.plot(8, "b:1")
			pa.common.Trace = in
			pa.tells(event.Grant, event.Event{Grant: 100, Apart: true, Command: "FENCE.ACQUIRE"})
			synctest.Wait()
			pb.tells(event.Commit, event.Event{Grant: 100, Apart: true, Command: "SET"})
			acquired, done := find(t, a.ends(), "sequence chat"), find(t, b.ends(), "commit")
			if done.SpanContext.TraceID() != acquired.SpanContext.TraceID() || done.Parent.SpanID() != acquired.SpanContext.SpanID() {
				t.Errorf("%v is not part of %v", done.Parent, acquired.SpanContext)
			}
		})
	}
}

func TestNeitherSessionsNorClientsAreNamedUnlessWanted(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		s := newStage(t, nil)
		s.names = wanted
		p := s.plot(1, "c:1")
		p.tells(event.Grant, event.Event{Grant: 7, Took: time.Second, Other: event.Party{Name: "secret-other", Grant: 6}})
		p.tells(event.Refuse, event.Event{Grant: 7, Error: "FENCED", Reason: "superseded", Other: event.Party{Name: "secret-other", Grant: 8}})
		p.tells(event.Release, event.Event{Grant: 7})
		text := fmt.Sprintf("%+v", s.ends())
		if got := strings.Contains(text, "secret-session") && strings.Contains(text, "secret-name"); got != wanted {
			t.Errorf("wanted: %v, sent: %s", wanted, text)
		}
		if strings.Contains(text, "secret-") != wanted {
			t.Errorf("wanted: %v, sent: %s", wanted, text)
		}
	}
}

func TestTheApplicationDecidesWhetherItsSequencesAreTraced(t *testing.T) {
	unsampled := application(1).WithTraceFlags(0)
	for _, tc := range []struct {
		in    trace.SpanContext
		share float64
		want  bool
	}{{application(1), 0, true}, {unsampled, 1, false}, {trace.SpanContext{}, 1, true}, {trace.SpanContext{}, 0, false}} {
		s := newStage(t, nil, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(tc.share))))
		p := s.plot(1, "c:1")
		p.common.Trace = tc.in
		p.tells(event.Grant, event.Event{Grant: 7})
		p.tells(event.Break, event.Event{Grant: 7, Reason: "max_hold"})
		p.tells(event.Refuse, event.Event{Grant: 7, Error: "FENCED", Reason: "max_hold"})
		if got := len(s.ends()) > 0; got != tc.want {
			t.Errorf("share %v, application %v: traced: %v", tc.share, tc.in, got)
		}
	}
}

// stuck is an exporter whose collector does not answer before the test is over.
type stuck struct{ answers chan struct{} }

func (s stuck) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-s.answers
	return nil
}
func (stuck) Shutdown(context.Context) error { return nil }

// The guard goes on telling of its sequences: it is not kept waiting (or this test would not end), and what is kept of them has a bound.
func TestACollectorThatDoesNotAnswerCostsSequencesAndNothingElse(t *testing.T) {
	collector := stuck{make(chan struct{})}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(collector, sdktrace.WithBlocking(), sdktrace.WithMaxQueueSize(64), sdktrace.WithMaxExportBatchSize(16)))
	tracer := (&Tracer{ids: newIDs(""), tracer: provider.Tracer("")}).begin()
	const all = 3 * maxSequences
	lives := [][]event.Kind{ // that hold, that end at once, that end in a while, and that may be written
		{event.Grant, event.Read},
		{event.Grant, event.Break, event.Refuse},
		{event.Grant, event.Read, event.Commit, event.Release},
		{event.Read},
	}
	for i := range uint64(all) {
		for _, kind := range lives[i%4] {
			e := event.Event{Kind: kind, At: time.Now(), Sequence: i + 1, Rule: "chat", Session: fmt.Sprint(i), Grant: i + 1}
			if i%4 == 3 {
				e.Grant = 0
			}
			tracer.Event(&e)
		}
		tracer.mu.Lock()
		open, over, kept := len(tracer.open), len(tracer.over), tracer.kept
		tracer.mu.Unlock()
		if open > maxSequences || over > maxUnsent || kept > maxKept {
			t.Fatalf("kept after %d: %d open, %d over, %d steps", i, open, over, kept)
		}
	}
	if got := tracer.Dropped(); got == 0 {
		t.Error("none is counted as dropped")
	}
	tracer.mu.Lock()
	if len(tracer.past.byID) > maxOver || len(tracer.past.ring) > maxOver {
		t.Error("all are remembered")
	}
	tracer.mu.Unlock()
	close(collector.answers)
	tracer.Close()
	_ = provider.Shutdown(context.Background())
}

// What was kept is given back: nothing is counted that is not there.
func TestNothingIsKeptOfWhatWasSent(t *testing.T) {
	s := newStage(t, nil)
	for i := range uint64(1000) {
		for _, kind := range []event.Kind{event.Wait, event.Grant, event.Read, event.Commit, event.Release, event.Commit, event.Refuse} {
			s.Event(&event.Event{Kind: kind, At: time.Now(), Sequence: i/2 + 1, Rule: "chat", Session: "s", Grant: i + 1})
		}
	}
	s.ends()
	if s.kept != 0 || len(s.open) != 0 || s.over != nil || s.holds.first != nil || s.reads.first != nil || s.last.first != nil {
		t.Errorf("%d steps, %d open, %d over", s.kept, len(s.open), len(s.over))
	}
}

func TestSequencesThatOnlyReadMakeRoomForOthers(t *testing.T) {
	s := newStage(t, nil, sdktrace.WithSampler(sdktrace.NeverSample()))
	for i := range uint64(maxSequences) {
		s.Event(&event.Event{Kind: event.Read, At: time.Now(), Sequence: i + 1})
	}
	s.Event(&event.Event{Kind: event.Grant, At: time.Now(), Sequence: maxSequences + 1, Grant: 7})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[maxSequences+1] == nil || s.dropped > 0 {
		t.Errorf("%d open, %d dropped", len(s.open), s.dropped)
	}
}

func TestAllThatIsOpenIsSentAtTheEnd(t *testing.T) {
	const all = 2 * maxUnsent
	s := newStage(t, nil)
	for i := range uint64(all) {
		s.Event(&event.Event{Kind: event.Grant, At: time.Now(), Sequence: i + 1, Grant: i + 1, Rule: "chat"})
	}
	sequences := 0
	for _, span := range s.ends() {
		if span.Name == "sequence chat" {
			sequences++
		}
	}
	if sequences != all || s.dropped > 0 {
		t.Errorf("%d of %d were sent, %d dropped", sequences, all, s.dropped)
	}
}
