// Package chart tests the Helm chart.
//
// testdata/cases has values, and testdata/golden what the chart makes of them. The tests without a build tag look at the golden
// files: whether Kubernetes knows every field, whether the parts fit together, whether the proxy takes its configuration. Those
// with the tag chart run Helm, compare, and make typical mistakes; with -update they write the golden files anew. Those with
// the tag kube ask a real kube-apiserver. make chart runs them all.
package chart
