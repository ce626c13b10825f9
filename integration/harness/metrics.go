package harness

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Page gets a page of the proxy's admin server, which it must have (ProxyOptions.Admin).
func (p *Proxy) Page(path string) (status int, body string) {
	p.tb.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := client.Get("http://" + p.Admin + path)
	if err != nil {
		p.tb.Fatalf("%s: %v", p.name, err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		p.tb.Fatalf("%s: read %s: %v", p.name, path, err)
	}
	return r.StatusCode, string(text)
}

// Metric returns the value of a series, named as Prometheus shows it; or the sum of those that have the labels which are named.
func (p *Proxy) Metric(series string) float64 {
	p.tb.Helper()
	status, page := p.Page("/metrics")
	if status != http.StatusOK {
		p.tb.Fatalf("%s: /metrics answers %d: %s", p.name, status, page)
	}
	sum, found := 0.0, false
	for line := range strings.Lines(page) {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || strings.HasPrefix(line, "#") || !within(series, line[:at]) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			p.tb.Fatalf("%s: %s is %q", p.name, series, line)
		}
		sum, found = sum+value, true
	}
	if !found {
		p.tb.Fatalf("%s has no metric %s", p.name, series)
	}
	return sum
}

// within reports whether a series is one of those meant: of the same name, and with at least the same labels.
func within(meant, series string) bool {
	name, labels, _ := strings.Cut(meant, "{")
	itsName, itsLabels, _ := strings.Cut(series, "{")
	if name != itsName {
		return false
	}
	its := strings.Split(strings.TrimSuffix(itsLabels, "}"), ",")
	for label := range strings.SplitSeq(strings.TrimSuffix(labels, "}"), ",") {
		if label != "" && !slices.Contains(its, label) {
			return false
		}
	}
	return true
}
