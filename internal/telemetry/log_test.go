package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"
)

// recorder keeps what is sent.
type recorder struct {
	mu  sync.Mutex
	all []sdklog.Record
}

func (r *recorder) Export(_ context.Context, records []sdklog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range records {
		r.all = append(r.all, records[i].Clone())
	}
	return nil
}
func (*recorder) Shutdown(context.Context) error   { return nil }
func (*recorder) ForceFlush(context.Context) error { return nil }

// said is a record as text, its attributes in order.
func said(r *sdklog.Record) string {
	var b strings.Builder
	b.WriteString(r.Body().String())
	r.WalkAttributes(func(a attribute.KeyValue) bool {
		fmt.Fprintf(&b, " %s=%s", a.Key, a.Value.String())
		return true
	})
	return b.String()
}

func logging(t *testing.T, names bool) (log *slog.Logger, plain *bytes.Buffer, sent *recorder) {
	t.Helper()
	plain, sent = new(bytes.Buffer), new(recorder)
	made := &Telemetry{
		settings: Settings{SessionNames: names}, errors: newComplaints(),
		logs: sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(sent))),
	}
	made.Trace(Tracing{Salt: "salt"})
	level := new(slog.LevelVar)
	return slog.New(made.Logger(slog.NewTextHandler(plain, &slog.HandlerOptions{Level: level}))), plain, sent
}

func TestALineOfASequenceHasTheIdsOfItsSpan(t *testing.T) {
	log, plain, sent := logging(t, false)
	ctx := trace.ContextWithSpanContext(t.Context(), application(1))
	log.With("client", "c").WarnContext(ctx, "FENCED", "grant", 7)
	log.Debug("not for this level")
	id := application(1)
	if want := " msg=FENCED client=c grant=7 trace_id=" + id.TraceID().String() + " span_id=" + id.SpanID().String() + "\n"; !strings.HasSuffix(plain.String(), want) {
		t.Errorf("logged %q", plain)
	}
	if len(sent.all) != 1 || sent.all[0].TraceID() != id.TraceID() || sent.all[0].SpanID() != id.SpanID() || said(&sent.all[0]) != "FENCED client=c grant=7" {
		t.Errorf("sent %v", sent.all)
	}
}

func TestALogThatIsSentNamesNoSessionUnlessWanted(t *testing.T) {
	for _, names := range []bool{false, true} {
		log, plain, sent := logging(t, names)
		log.With("rule", "chat", "session", "secret-s", "name", "secret-n").Warn(`rule "chat" session "secret-\"s" is gone`,
			"error", errors.New(`ERR can't do 'secret-arg', nor "secret-key": it isn't there`), "sessions", "secret-s",
			"holder", "client 10.0.0.1:5 (secret (name)) of proxy p since then", "waited", 3)
		if !strings.Contains(plain.String(), "secret-s") || !strings.Contains(plain.String(), "secret-arg") {
			t.Errorf("the log itself lacks something: %s", plain)
		}
		if len(sent.all) != 1 {
			t.Fatalf("%d records", len(sent.all))
		}
		got := said(&sent.all[0])
		if strings.Contains(got, "secret") != names {
			t.Errorf("names are wanted: %v; sent: %s", names, got)
		}
		hash := newIDs("salt").session("chat", "secret-s")
		if want := `rule "…" session "…" is gone rule=chat fence.session.hash=` + hash + ` error=ERR can't do "…", nor "…": it isn't there ` +
			"holder=client 10.0.0.1:5 of proxy p since then waited=3"; !names && got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// It would be said for each batch, and its own line would make another.
func TestThatNothingCanBeSentIsSaidOnceAndNotSent(t *testing.T) {
	var plain bytes.Buffer
	c := newComplaints()
	c.logTo(slog.NewTextHandler(&plain, nil))
	for range 100 {
		c.Handle(errors.New("connection refused"))
	}
	if got := strings.Count(plain.String(), "connection refused"); got != 1 {
		t.Errorf("said %d times", got)
	}
}
