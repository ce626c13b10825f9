package bench

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// scrapeEvery is how often Prometheus would ask: more often than anybody has it.
const scrapeEvery = time.Second

// equipped is a proxy with telemetry, or without.
type equipped struct {
	name  string
	proxy *harness.Proxy
}

// equip starts proxies in front of a Redis: one that tells nobody anything, one whose metrics are read and that sends traces,
// metrics and logs to a collector, and one whose collector takes connections and never answers.
func equip(b *testing.B, server *harness.Redis) (all []equipped) {
	b.Helper()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	b.Cleanup(collector.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = silent.Close() })
	for name, endpoint := range map[string]string{"off": "", "on": collector.URL, "collector silent": "http://" + silent.Addr().String()} {
		options := harness.ProxyOptions{Name: name, Redis: server, ConfigYAML: rules}
		if endpoint != "" {
			options.Admin = true
			options.Env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + endpoint}
		}
		p := harness.StartProxy(b, options)
		all = append(all, equipped{name, p})
		if endpoint != "" {
			scraped(b, p)
		}
	}
	slices.SortFunc(all, func(x, y equipped) int { return -cmp.Compare(x.name, y.name) }) // on, off, collector silent
	all[0], all[1] = all[1], all[0]
	return all
}

// scraped has a proxy's metrics read until the end of the benchmark.
func scraped(b *testing.B, p *harness.Proxy) {
	b.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		every := time.NewTicker(scrapeEvery)
		defer every.Stop()
		for {
			select {
			case <-stop:
				return
			case <-every.C:
				if err := scrape("http://" + p.Admin + "/metrics"); err != nil {
					b.Error(err)
				}
			}
		}
	}()
	b.Cleanup(func() {
		close(stop)
		<-stopped
	})
}

func scrape(url string) error {
	reply, err := http.Get(url)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	_, err = io.Copy(io.Discard, reply.Body)
	return err
}

// BenchmarkTelemetry compares proxies with all telemetry on with one that has none, in turns.
func BenchmarkTelemetry(b *testing.B) {
	results := report.Table{Title: "Telemetry on over off, medians of the rounds' ratios"}
	results.Add("what", "", "off, per second", "throughput", "proxy CPU", "off, CPU µs")
	for _, l := range []load{{256, 1, 1}, {256, 50, 1}, {256, 50, 16}} {
		b.Run(fmt.Sprintf("pass/conns=%d/pipeline=%d", l.connections, l.pipeline), func(b *testing.B) { l.equipped(b, &results) })
	}
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("cycle/clients=%d", n), func(b *testing.B) { equippedCycle(b, n, &results) })
	}
	report.Publish(b, report.Section{
		Name: "telemetry", Heading: "What telemetry costs",
		Says: "Proxies with metrics that are read every second and traces, metrics and logs that go to a collector, and with a collector that takes connections and never answers, " +
			"next to a proxy that tells nobody anything; their turns are interleaved.",
		Tables: []*report.Table{&results},
	})
}

func (l load) equipped(b *testing.B, results *report.Table) {
	b.Helper()
	server := harness.StartRedis(b)
	var runners []*runner
	for _, e := range equip(b, server) {
		runners = append(runners, newRunner(e.name, e.proxy.Addr, e.proxy.Pid(), server.Pid()))
	}
	n := l.requests(b, server.Addr)
	order := slices.Clone(runners)
	for b.Loop() {
		for _, command := range commands {
			for _, r := range order {
				r.turn(b, l, command, n)
			}
		}
		slices.Reverse(order)
	}
	without := runners[0]
	for _, with := range runners[1:] {
		cpu := with.mean(func(command string) series { return with.got[command].proxyCPU.over(without.got[command].proxyCPU) })
		tell(b, results, fmt.Sprintf("GET, SET of %d bytes, %d connections, pipeline %d", l.value, l.connections, l.pipeline), with.name,
			without.mean(func(command string) series { return without.got[command].rate }), with.over(without), cpu, without.proxyCPU())
	}
}

func equippedCycle(b *testing.B, clients int, results *report.Table) {
	b.Helper()
	server := harness.StartRedis(b)
	var contestants []*contestant
	for _, e := range equip(b, server) {
		contestants = append(contestants, newContestant(b, way{name: e.name, gather: inProcess(fenced)}, place{redis: e.proxy.Addr}, clients, clients))
		contestants[len(contestants)-1].proxy = e.proxy.Pid()
	}
	order := slices.Clone(contestants)
	for b.Loop() {
		for _, c := range order {
			if err := c.turn(b.Context(), aloneTurn); err != nil {
				b.Fatal(err)
			}
		}
		slices.Reverse(order)
	}
	without := contestants[0]
	for _, with := range contestants[1:] {
		tell(b, results, fmt.Sprintf("guarded cycles, %d clients", clients), with.name, without.rate.median(), with.rate.over(without.rate).median(),
			with.proxyCPU.over(without.proxyCPU).median(), without.proxyCPU.median())
	}
}

func tell(b *testing.B, results *report.Table, what, with string, rate, throughput, cpu, micros float64) {
	b.Helper()
	results.Add(what, with, rate, throughput, cpu, micros)
	b.ReportMetric(0, "ns/op")
	unit := strings.ReplaceAll(with, " ", "_")
	b.ReportMetric(throughput, unit+"_x_throughput")
	b.ReportMetric(cpu, unit+"_x_cpu")
}
