package telemetry

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Settings say what is sent where. The standard variables say the same, and win.
type Settings struct {
	Endpoint              string // URL of the collector, without a path; "" for none
	Protocol              string // protocolHTTP or protocolGRPC
	Traces, Metrics, Logs bool   // what is sent to Endpoint
	Sample                float64
	SessionNames          bool
}

// The protocols.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// signal is one of the three kinds of what is sent.
type signal struct {
	name string // TRACES, as in the variables
	path string // of OTLP over HTTP

	endpoint string // "" where a variable has it
	protocol string
}

// signals returns those that are to be sent: nil for each that is not. notes say what of the variables is not done.
func (s Settings) signals() (traces, metrics, logs *signal, notes []string, err error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil, nil, nil, nil
	}
	for _, one := range []struct {
		to         **signal
		name, path string
		wanted     bool
	}{
		{&traces, "TRACES", "/v1/traces", s.Traces},
		{&metrics, "METRICS", "/v1/metrics", s.Metrics},
		{&logs, "LOGS", "/v1/logs", s.Logs},
	} {
		found, note, e := s.signal(one.name, one.path, one.wanted)
		if e != nil {
			return nil, nil, nil, nil, e
		}
		if note != "" {
			notes = append(notes, note)
		}
		*one.to = found
	}
	return traces, metrics, logs, notes, nil
}

func (s Settings) signal(name, path string, wanted bool) (found *signal, note string, err error) {
	said := variable("OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") != ""
	on := wanted && (s.Endpoint != "" || said)
	if exporters := variable("OTEL_" + name + "_EXPORTER"); exporters != "" {
		list := strings.Split(exporters, ",")
		for i := range list {
			list[i] = strings.TrimSpace(list[i])
		}
		on = slices.Contains(list, "otlp")
		if i := slices.IndexFunc(list, func(e string) bool { return e != "otlp" && e != "none" }); i >= 0 {
			note = fmt.Sprintf("OTEL_%s_EXPORTER: there is no exporter %q here, only otlp and none", name, list[i])
		}
	}
	if !on {
		return nil, note, nil
	}
	found = &signal{name: name, path: path, protocol: variable("OTEL_EXPORTER_OTLP_"+name+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")}
	if found.protocol == "" {
		found.protocol = s.Protocol
	}
	switch found.protocol {
	case protocolGRPC:
		path = ""
	case protocolHTTP:
	default:
		return nil, "", fmt.Errorf("telemetry: OTEL_EXPORTER_OTLP_PROTOCOL is %q, which is not known: set it to %s or %s", found.protocol, protocolGRPC, protocolHTTP)
	}
	if !said && s.Endpoint != "" {
		found.endpoint = strings.TrimRight(s.Endpoint, "/") + path
	}
	return found, note, nil
}

// variable returns the first of the variables that says something.
func variable(names ...string) string {
	for _, name := range names {
		if text := strings.TrimSpace(os.Getenv(name)); text != "" {
			return text
		}
	}
	return ""
}

// String names the signal, and how it is sent.
func (s *signal) String() string {
	to := s.endpoint
	if to == "" {
		to = "by the OTEL_ variables"
	}
	return strings.ToLower(s.name) + " " + s.protocol + " " + to
}
