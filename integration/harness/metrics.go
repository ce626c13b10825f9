package harness

import (
	"io"
	"net/http"
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

// Metric returns the value of a series, named as Prometheus shows it: with its labels in their order.
func (p *Proxy) Metric(series string) float64 {
	p.tb.Helper()
	status, page := p.Page("/metrics")
	if status != http.StatusOK {
		p.tb.Fatalf("%s: /metrics answers %d: %s", p.name, status, page)
	}
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				p.tb.Fatalf("%s: %s is %q", p.name, series, text)
			}
			return value
		}
	}
	p.tb.Fatalf("%s has no metric %s", p.name, series)
	return 0
}
