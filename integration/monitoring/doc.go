// Package monitoring tests what operators look at: the alert rules and the dashboard that come with the chart, by a real Prometheus.
//
// alerts.test.yaml has promtool's tests of the rules, in their own time. In the scenario of this package the rules' minutes are seconds.
package monitoring
