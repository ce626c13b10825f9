package telemetry

import (
	"slices"
	"strings"
	"testing"
)

// alone takes away the variables that the test's own environment may have.
func alone(t *testing.T) {
	t.Helper()
	for _, name := range []string{"TRACES_", "METRICS_", "LOGS_", ""} {
		for _, what := range []string{"ENDPOINT", "PROTOCOL", "HEADERS", "TIMEOUT"} {
			t.Setenv("OTEL_EXPORTER_OTLP_"+name+what, "")
		}
		if name != "" {
			t.Setenv("OTEL_"+name+"EXPORTER", "")
		}
	}
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"} {
		t.Setenv(name, "")
	}
}

func TestWhatIsSentWhere(t *testing.T) {
	all := Settings{Protocol: protocolHTTP, Traces: true, Metrics: true, Logs: true, Sample: 1}
	to := func(endpoint string, edits ...func(*Settings)) Settings {
		s := all
		s.Endpoint = endpoint
		for _, edit := range edits {
			edit(&s)
		}
		return s
	}
	type env map[string]string
	for name, tc := range map[string]struct {
		settings Settings
		env      env
		want     string
	}{
		"nothing is said": {settings: all},
		"an endpoint":     {settings: to("http://c:4318/"), want: "traces http/protobuf http://c:4318/v1/traces, metrics http/protobuf http://c:4318/v1/metrics, logs http/protobuf http://c:4318/v1/logs"},
		"one for gRPC, traces alone": {
			settings: to("http://c:4317", func(s *Settings) { s.Protocol, s.Metrics, s.Logs = protocolGRPC, false, false }), want: "traces grpc http://c:4317",
		},
		"a variable wins over it": {
			settings: to("http://c:4318"), env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://v:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
			want: "traces grpc by the OTEL_ variables, metrics grpc by the OTEL_ variables, logs grpc by the OTEL_ variables",
		},
		"a variable for one": {settings: all, env: env{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://v:1"}, want: "logs http/protobuf by the OTEL_ variables"},
		"a protocol for one": {
			settings: to("http://c:1", func(s *Settings) { s.Logs = false }), env: env{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"},
			want: "traces grpc http://c:1, metrics http/protobuf http://c:1/v1/metrics",
		},
		"an exporter": {settings: all, env: env{"OTEL_TRACES_EXPORTER": "otlp"}, want: "traces http/protobuf by the OTEL_ variables"},
		"no exporter": {settings: to("http://c:1"), env: env{"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, want: "logs http/protobuf http://c:1/v1/logs"},
		"unknown ones": {
			settings: all, env: env{"OTEL_TRACES_EXPORTER": "console, otlp", "OTEL_METRICS_EXPORTER": "prometheus"},
			want: `traces http/protobuf by the OTEL_ variables; OTEL_TRACES_EXPORTER: there is no exporter "console" here, only otlp and none; ` +
				`OTEL_METRICS_EXPORTER: there is no exporter "prometheus" here, only otlp and none`,
		},
		"all is off": {settings: to("http://c:1"), env: env{"OTEL_SDK_DISABLED": "TRUE", "OTEL_TRACES_EXPORTER": "otlp"}},
		"an unknown protocol": {
			settings: to("http://c:1"), env: env{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
			want: `telemetry: OTEL_EXPORTER_OTLP_PROTOCOL is "http/json", which is not known: set it to grpc or http/protobuf`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t)
			for name, text := range tc.env {
				t.Setenv(name, text)
			}
			traces, metrics, logs, notes, err := tc.settings.signals()
			var said []string
			for _, s := range []*signal{traces, metrics, logs} {
				if s != nil {
					said = append(said, s.String())
				}
			}
			got := strings.Join(slices.Concat([]string{strings.Join(said, ", ")}, notes), "; ")
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestWhoSendsIsWhatTheVariablesSay(t *testing.T) {
	alone(t)
	o := Options{Name: "agents-1", Version: "v9"}
	said := func() string {
		t.Helper()
		r, err := describe(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return r.String()
	}
	if got := said(); !strings.Contains(got, "service.name=fence-proxy") || !strings.Contains(got, "service.version=v9") || !strings.Contains(got, "fence.proxy=agents-1") {
		t.Error(got)
	}
	t.Setenv("OTEL_SERVICE_NAME", "guard")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	if got := said(); !strings.Contains(got, "service.name=guard") || !strings.Contains(got, "deployment.environment=test") || strings.Contains(got, "=fence-proxy") {
		t.Error(got)
	}
}

func TestNothingIsStartedWhereNothingIsSent(t *testing.T) {
	alone(t)
	sends, err := Start(t.Context(), Options{Settings: Settings{Protocol: protocolHTTP, Traces: true, Metrics: true, Logs: true}})
	if sends != nil || err != nil {
		t.Error(sends, err)
	}
	if sends.Metrics() != nil || sends.Trace(Tracing{}) != nil {
		t.Error("it is said to send something")
	}
	sends.Close(t.Context())
}
