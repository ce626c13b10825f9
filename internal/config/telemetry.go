package config

import (
	"net/url"
	"strconv"
)

// The words of telemetry.protocol.
const (
	// ProtocolGRPC is OTLP over gRPC, by custom on port 4317.
	ProtocolGRPC = "grpc"
	// ProtocolHTTP is OTLP as protobuf over HTTP, by custom on port 4318.
	ProtocolHTTP = "http/protobuf"
)

// Telemetry says what the proxy sends to an OpenTelemetry collector. The standard OTEL_ variables say the same, and win.
type Telemetry struct {
	// Endpoint is the collector's URL, http or https: without a path. "" (default): nothing is sent, unless a
	// variable says so.
	Endpoint string `yaml:"endpoint"`
	// Protocol is how to speak to it: "http/protobuf" (default) or "grpc".
	Protocol string `yaml:"protocol"`
	// Traces, Metrics and Logs say which of them are sent to Endpoint. Default all.
	Traces  bool `yaml:"traces"`
	Metrics bool `yaml:"metrics"`
	Logs    bool `yaml:"logs"`
	// Sample is the share of sequences that are traced, where the application has not decided it. Default 1.
	Sample float64 `yaml:"sample"`
	// SessionNames has sessions and clients named in what is sent. Default no: sessions are hashes.
	SessionNames bool `yaml:"session_names"`
}

// check looks at where telemetry goes.
func (t *Telemetry) check() []finding {
	var found []finding
	refuse := func(key, problem, remedy string) {
		found = append(found, finding{"telemetry." + key, fault{problem, remedy}})
	}
	if t.Endpoint != "" {
		switch u, err := url.Parse(t.Endpoint); {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			refuse("endpoint", "is no URL of http or https", "write it as in http://127.0.0.1:4318")
		case u.User != nil:
			refuse("endpoint", "has a user or a password", "give what the collector asks for in OTEL_EXPORTER_OTLP_HEADERS")
		case u.RawQuery != "" || u.Fragment != "":
			refuse("endpoint", "has something after the path", "remove it, and give what the collector asks for in OTEL_EXPORTER_OTLP_HEADERS")
		}
	}
	if t.Protocol != ProtocolGRPC && t.Protocol != ProtocolHTTP {
		refuse("protocol", strconv.Quote(t.Protocol)+" is not known", "write "+choice([]string{ProtocolGRPC, ProtocolHTTP}))
	}
	if !(t.Sample >= 0 && t.Sample <= 1) {
		refuse("sample", strconv.FormatFloat(t.Sample, 'g', -1, 64)+" is no share", "write a number from 0 to 1, as in 0.1")
	}
	return found
}
