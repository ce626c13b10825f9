// Package metrics counts what the proxy does, and shows it to Prometheus. docs/metrics.md has the names.
//
// Most of it is told by the guard's events ([Metrics.Event]); the rest are methods that say what happened ([Metrics.Connected] …), and
// what others count by themselves and is asked for when somebody looks ([Metrics.Reads]): what is counted for a command that passes
// unguarded must cost nothing.
//
// Counters and gauges are instruments of the OpenTelemetry API, which names them with dots; its Prometheus exporter makes
// underscores, units and "_total" of that. Histograms are twofold. The exporter shows an instrument as a native or as a classic histogram, but
// not as both, and Prometheus without native histograms can't read the one, nor a dashboard for native ones the other. So Prometheus gets them from its own client
// library, which has both in one, by way of the same registry, and the exporter leaves those of OpenTelemetry out, which are there for other
// readers (OTLP).
//
// A Prometheus that knows native histograms asks for the protobuf format and gets both; the text format has the buckets only.
package metrics
