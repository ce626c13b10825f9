// Package metrics counts what the proxy does, on the OpenTelemetry metric API, and shows it to
// Prometheus.
//
// An instrument is a field of [Metrics], made in [New], and a method that says what happened. Instruments
// are named with dots ("fence_proxy.connections"); Prometheus sees them with underscores and,
// where they count, with "_total". Nothing is counted for a command that passes through unguarded.
package metrics
