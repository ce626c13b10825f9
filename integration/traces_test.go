//go:build integration

package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// promptly has what is sent sent at once.
var promptly = []string{"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BLRP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200"}

// sending is the configuration of a proxy that sends telemetry over a protocol.
func sending(collector *harness.Collector, protocol string, more ...string) string {
	endpoint := collector.HTTP
	if protocol == "grpc" {
		endpoint = collector.GRPC
	}
	return strings.Join(append([]string{"telemetry:", "endpoint: " + endpoint, "protocol: " + protocol}, more...), "\n  ") + "\n"
}

// parents are the ways in which an application says of which trace its sequences are part. say returns the ids of
// the trace and of the span that the sequence is then a child of.
var parents = []struct {
	name string
	say  func(p *party, n int) (trace, span string)
}{
	{"no trace of the application", func(*party, int) (string, string) { return "", "" }},
	{"FENCE.TRACE", func(p *party, n int) (string, string) {
		trace, span := fmt.Sprintf("%032x", n), fmt.Sprintf("%016x", n)
		p.does("OK", "FENCE.TRACE", "00-"+trace+"-"+span+"-01", "vendor=x")
		return trace, span
	}},
	{"a client's name", func(p *party, n int) (string, string) {
		trace, span := fmt.Sprintf("%032x", n), fmt.Sprintf("%016x", n)
		p.does("OK", "CLIENT", "SETNAME", "agent;traceparent=00-"+trace+"-"+span+"-01")
		return trace, span
	}},
}

// A reads and sleeps past max_hold, B waits for A, reads and writes, and A writes what is stale: the spans of the two
// proxies tell that. Case 82.
func TestTheSpansOfAStaleWriterTellWhichHoldSupersededWhich(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		for _, parent := range parents {
			t.Run(protocol+", "+parent.name, func(t *testing.T) {
				const key = "ctx:s"
				server, collector := harness.StartRedis(t), harness.StartCollector(t)
				telemetry := sending(collector, protocol, "metrics: false", "logs: false")
				proxyA := harness.StartProxy(t, harness.ProxyOptions{Name: "A's", Redis: server, Env: promptly, ConfigYAML: "name: A-proxy\n" + telemetry + guarding(shortHolds...)})
				proxyB := harness.StartProxy(t, harness.ProxyOptions{Name: "B's", Redis: server, Env: promptly, ConfigYAML: "name: B-proxy\n" + telemetry + guarding(longHolds...)})
				record := recordOf(t, server, key)
				a, _ := connect(t, "A", proxyA.Addr)
				b, _ := connect(t, "B", proxyB.Addr)

				traceA, parentA := parent.say(a, 0xa)
				a.does(nil, "GET", key)
				grantA := record.grant()
				traceB, parentB := parent.say(b, 0xb)
				b.does(nil, "GET", key) // waits until A's hold has ended
				grantB := record.grant()
				b.does("OK", "SET", key, "B's")
				harness.Eventually(t, 0, func() bool { return strings.Contains(proxyA.Logs(), "hold reached max_hold") }, "A's proxy, too, has ended A's hold")
				a.fails("FENCED", "SET", key, "A's, stale")

				holdOf := func(proxy string, grant uint64) harness.Span {
					return collector.Span(t, "the sequence of "+proxy, func(s harness.Span) bool {
						return s.Name == "sequence ctx" && s.Proxy == proxy && s.Attributes["fence.grant"] == fmt.Sprint(grant)
					})
				}
				holdA, holdB := holdOf("A-proxy", grantA), holdOf("B-proxy", grantB)
				refused := collector.Span(t, "A's refusal", func(s harness.Span) bool { return s.Name == "refuse" && s.Proxy == "A-proxy" })
				within(t, refused, holdA)
				linked(t, refused, holdB, "superseded_by")
				linked(t, holdB, holdA, "waited_for")
				for _, step := range []string{"wait", "acquire", "read", "commit", "release"} {
					within(t, collector.Span(t, "B's "+step, func(s harness.Span) bool { return s.Name == step && s.Parent == holdB.ID }), holdB)
				}
				if line := regexp.MustCompile(`hold reached max_hold.* trace_id=` + holdA.Trace + ` span_id=` + holdA.ID); !line.MatchString(proxyA.Logs()) {
					t.Errorf("what the log says of the end of A's hold has not the ids of its span: %v", line)
				}
				within(t, collector.Span(t, "the end of A's hold", func(s harness.Span) bool { return s.Name == "break" && s.Parent == holdA.ID }), holdA)
				commit := collector.Span(t, "B's commit", func(s harness.Span) bool { return s.Name == "commit" && s.Proxy == "B-proxy" })
				attributes(t, commit, map[string]string{"db.system.name": "redis", "db.operation.name": "SET", "server.address": "127.0.0.1", "fence.grant": fmt.Sprint(grantB)})
				attributes(t, holdA, map[string]string{"fence.rule": "ctx", "fence.mode": "lock", "fence.owner.kind": "connection", "db.namespace": "0"})
				if holdA.Attributes["error.type"] == "" {
					t.Error("the sequence that lost its hold is no error")
				}
				attributes(t, refused, map[string]string{"db.operation.name": "SET", "error.type": "FENCED", "fence.reason": "max_hold"})
				if traceA == "" {
					if holdA.Parent != "" || holdB.Parent != "" || holdA.Trace == holdB.Trace {
						t.Errorf("the sequences are not each a trace: %v, %v", holdA.Span, holdB.Span)
					}
				} else if holdA.Trace != traceA || holdA.Parent != parentA || holdB.Trace != traceB || holdB.Parent != parentB {
					t.Errorf("the sequences are not in the application's traces: %v, %v", holdA.Span, holdB.Span)
				}
				if carried := map[string]int{"grpc": collector.Requests("grpc"), "http/protobuf": collector.Requests("http")}; carried[protocol] == 0 || carried["grpc"] > 0 && carried["http/protobuf"] > 0 {
					t.Errorf("the spans came otherwise: %v", carried)
				}
			})
		}
	}
}

// Neither A nor its proxy can know, and the store refuses: what broke the sequence and the refusal are in A's span, as B still holds the session.
func TestTheSpansTellWhoHoldsWhatAnotherThoughtItHeld(t *testing.T) {
	t.Parallel()
	const key = "ctx:s"
	server, collector := harness.StartRedis(t), harness.StartCollector(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, Env: promptly, ConfigYAML: sending(collector, "grpc") + guarding(longHolds...)})
	record := recordOf(t, server, key)
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	a.does(nil, "GET", key)
	grantA := fmt.Sprint(record.grant())
	record.loses(record.hold) // as if the lease had ended
	b.does(nil, "GET", key)
	grantB := fmt.Sprint(record.grant())
	a.fails("FENCED", "SET", key, "A's, stale")
	b.does("OK", "SET", key, "B's")
	hold := func(grant string) harness.Span {
		return collector.Span(t, "the sequence of grant "+grant, func(s harness.Span) bool { return s.Name == "sequence ctx" && s.Attributes["fence.grant"] == grant })
	}
	holdA, holdB := hold(grantA), hold(grantB)
	linked(t, holdA, holdB, "superseded_by")
	attributes(t, holdA, map[string]string{"error.type": "FENCED"})
	if holdB.Attributes["error.type"] != "" {
		t.Errorf("B's sequence is an error: %v", holdB.Attributes)
	}
	within(t, collector.Span(t, "A's refusal", func(s harness.Span) bool { return s.Name == "refuse" }), holdA)

	// What the log says of the refusal, to people and to the collector, has the ids of that span.
	proxy.WaitLog(t, "trace_id="+holdA.Trace+" span_id="+holdA.ID)
	harness.Eventually(t, 0, func() bool {
		for _, r := range collector.Logs() {
			if r.Body == "FENCED" {
				return r.Trace == holdA.Trace && r.ID == holdA.ID && r.Attributes["fence.session.hash"] == holdA.Attributes["fence.session.hash"]
			}
		}
		return false
	}, "the collector has the refusal's record, with its span")
}

func within(t *testing.T, step, sequence harness.Span) {
	t.Helper()
	if step.Trace != sequence.Trace || step.Parent != sequence.ID {
		t.Errorf("%s is in trace %s under %s, and its sequence is %s of %s", step.Name, step.Trace, step.Parent, sequence.ID, sequence.Trace)
	}
}

func linked(t *testing.T, from, to harness.Span, why string) {
	t.Helper()
	for _, l := range from.GetLinks() {
		if fmt.Sprintf("%x", l.GetTraceId()) == to.Trace && fmt.Sprintf("%x", l.GetSpanId()) == to.ID {
			for _, a := range l.GetAttributes() {
				if a.GetKey() == "fence.link" && a.GetValue().GetStringValue() == why {
					return
				}
			}
		}
	}
	t.Errorf("%s of %s is not linked to %s of %s as %s: %v", from.Name, from.Proxy, to.ID, to.Trace, why, from.GetLinks())
}

func attributes(t *testing.T, of harness.Span, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got := of.Attributes[key]; got != value {
			t.Errorf("%s: %s is %q, want %q", of.Name, key, got, value)
		}
	}
}

// Whatever the guard says of a client's work, it says without what the client has written and without its session's name.
func TestTelemetryHasNoValueAndNamesNoSessionUnlessWanted(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("session_names %v", named), func(t *testing.T) {
			const key = "ctx:secret-session"
			server, collector := harness.StartRedis(t), harness.StartCollector(t)
			proxy := harness.StartProxy(t, harness.ProxyOptions{
				Redis: server, Env: promptly,
				ConfigYAML: "log: {level: debug}\n" + sending(collector, "http/protobuf", fmt.Sprintf("session_names: %v", named)) + guarding("wait: 50ms", "lease: 60s", "max_hold: 10m", "idle: 10m"),
			})
			record := recordOf(t, server, key)
			a, _ := connect(t, "A", proxy.Addr)
			b, _ := connect(t, "B", proxy.Addr)
			a.does("OK", "CLIENT", "SETNAME", "secret-name")
			a.does("OK", "SET", key, "secret-value")
			a.does("secret-value", "GET", key)
			b.fails("LOCKED", "GET", key)
			b.fails("FENCEDENIED", "GET", "fence-proxy:secret-key")
			b.fails("FENCEDENIED", "EVAL", "return 'secret-script'", "0", key)
			b.fails("ERR", "FENCE.SECRET-WORD", "secret-argument")
			a.does(int64(3), "RPUSH", key+":list", "secret-1", "secret-2", "secret-3")
			record.loses(record.hold)
			b.does("secret-value", "GET", key)
			a.fails("FENCED", "SET", key, "secret-value")
			b.does("OK", "SET", key, "secret-value")
			collector.Span(t, "the refusal", func(s harness.Span) bool { return s.Name == "refuse" && s.Attributes["error.type"] == "FENCED" })
			collector.Span(t, "B's sequence", func(s harness.Span) bool { return s.Name == "commit" && s.Attributes["db.operation.name"] == "SET" })
			harness.Eventually(t, 0, func() bool { return collector.Metrics()["fence_proxy.connections"] }, "the collector has metrics")
			harness.Eventually(t, 0, func() bool {
				found := 0
				for _, r := range collector.Logs() {
					if strings.HasPrefix(r.Body, "FENCED") || r.Body == "LOCKED" || r.Body == "command not understood" {
						found++
					}
				}
				return found >= 5
			}, "the collector has the log")
			proxy.Terminate()
			proxy.Wait() // and so it has all there is

			text := collector.Text()
			if strings.Contains(text, "secret-session") != named || strings.Contains(text, "secret-name") != named {
				t.Errorf("names are wanted: %v; it has %s", named, around(text, "secret"))
			}
			for _, secret := range []string{"secret-value", "secret-1", "secret-argument", "secret-script"} {
				if strings.Contains(text, secret) {
					t.Errorf("it has %s", around(text, secret))
				}
			}
			if !named && strings.Contains(strings.ToLower(text), "secret") {
				t.Errorf("it has %s", around(strings.ToLower(text), "secret"))
			}
		})
	}
}

// around is the part of a text in which something is.
func around(text, what string) string {
	i := strings.Index(text, what)
	if i < 0 {
		return "nothing of that"
	}
	return text[max(0, i-200):min(len(text), i+200)]
}

// The variables alone, without a word in the configuration; the application's traces are sampled as it says, and no others.
func TestTheStandardVariablesSayWhatIsSent(t *testing.T) {
	t.Parallel()
	server, collector := harness.StartRedis(t), harness.StartCollector(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Redis: server, ConfigYAML: guarding(longHolds...),
		Env: append([]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.GRPC, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_TRACES_SAMPLER=parentbased_always_off",
			"OTEL_METRICS_EXPORTER=none", "OTEL_SERVICE_NAME=guard",
		}, promptly...),
	})
	a, _ := connect(t, "A", proxy.Addr)
	a.does("OK", "SET", "ctx:s", "1")
	a.does("1", "GET", "ctx:s")
	a.does("OK", "SET", "ctx:s", "2")
	const trace = "0af7651916cd43dd8448eb211c80319c"
	a.does("OK", "FENCE.TRACE", "00-"+trace+"-b7ad6b7169203331-00")
	a.does("OK", "SET", "ctx:s", "3")
	a.does("OK", "FENCE.TRACE", "00-"+trace+"-b7ad6b7169203331-01")
	a.does("3", "GET", "ctx:s")
	a.does("OK", "SET", "ctx:s", "4") // of the same sequence
	a.does("OK", "SET", "ctx:s", "5") // of another
	proxy.Terminate()
	if code := proxy.Wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	commits := 0
	for _, s := range collector.Spans() {
		if s.Trace != trace {
			t.Errorf("%s was sampled", s.Name)
		}
		if s.Name == "commit" {
			commits++
		}
	}
	if commits != 1 {
		t.Errorf("%d commits were traced, want the one of the sequence that FENCE.TRACE was said before", commits)
	}
	if !strings.Contains(collector.Text(), "guard") || len(collector.Metrics()) > 0 || len(collector.Logs()) == 0 {
		t.Errorf("metrics %v, %d log records", collector.Metrics(), len(collector.Logs()))
	}
}

// What Redis's own clients may send, in pipelines and in both protocols.
func TestFenceTraceIsValidated(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding(longHolds...)})
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, protocol := range []string{"2", "3"} {
		conn := greet(t, proxy.Addr, protocol)
		conn.Send(harness.Encode("fence.trace", good) + harness.Encode("GET", "ctx:s") + harness.Encode("FENCE.TRACE", good, "a=1,b=2") + harness.Encode("SET", "ctx:s", "v"))
		for i, want := range []string{"+OK\r\n", "", "+OK\r\n", "+OK\r\n"} {
			if got, err := conn.Read(); err != nil || want != "" && string(got) != want {
				t.Errorf("RESP%s: reply %d is %q, %v", protocol, i, got, err)
			}
		}
		for _, bad := range [][]string{
			{""},
			{"01"},
			{strings.ToUpper(good)},
			{"ff" + good[2:]},
			{good + "-00"},
			{"00-" + strings.Repeat("0", 32) + good[35:]},
			{good[:36] + strings.Repeat("0", 16) + "-01"},
			{good, "no list"},
			{good, "a=1", "more"},
		} {
			if got := string(conn.Do(append([]string{"FENCE.TRACE"}, bad...)...)); !strings.HasPrefix(got, "-ERR ") {
				t.Errorf("RESP%s: %q: %q", protocol, bad, got)
			}
		}
		if got := string(conn.Do("FENCE.TRACE")); got != "-ERR wrong number of arguments for 'fence.trace' command\r\n" {
			t.Errorf("%q", got)
		}
		conn.Do("MULTI")
		if got := string(conn.Do("FENCE.TRACE", good)); !strings.HasPrefix(got, "-ERR Command not allowed inside a transaction") {
			t.Errorf("%q", got)
		}
		conn.Do("DISCARD")
	}
}

// The collector takes what is sent and never answers. Clients are served as ever, what is kept for it has a bound, and the proxy ends in time.
func TestAProxyWhoseCollectorNeverAnswersServesItsClients(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			server := harness.StartRedis(t)
			hole := harness.StartRelay(t, server.Addr)
			hole.Blackhole(true)
			proxy := harness.StartProxy(t, harness.ProxyOptions{
				Redis: server, Admin: true, Env: append([]string{"OTEL_EXPORTER_OTLP_TIMEOUT=300", "OTEL_BSP_EXPORT_TIMEOUT=500"}, promptly...),
				ConfigYAML: "telemetry:\n  endpoint: http://" + hole.Addr + "\n  protocol: " + protocol + "\n" + guarding(longHolds...),
			})
			a, conn := connect(t, "A", proxy.Addr)
			const batch, turns = 100, 100
			var all strings.Builder
			for i := range batch {
				key := fmt.Sprint("ctx:", i)
				all.WriteString(harness.Encode("GET", key) + harness.Encode("SET", key, "v"))
			}
			for turn := range turns {
				conn.Send(all.String())
				for range batch {
					if turn == 0 {
						a.hears(nil)
					} else {
						a.hears("v")
					}
					a.hears("OK")
				}
			}
			if kept := proxy.Metric("go_memstats_heap_inuse_bytes"); kept > 96<<20 {
				t.Errorf("the heap has %v MiB", kept/(1<<20))
			}
			proxy.WaitLog(t, "telemetry was not sent")
			proxy.Terminate()
			if code := proxy.Wait(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
