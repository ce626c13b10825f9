package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// scrapeEvery is how often Prometheus would ask: more often than anybody has it.
const scrapeEvery = time.Second

// equipped is a proxy with telemetry, or without.
type equipped struct {
	name  string
	proxy *harness.Proxy
}

// equip starts two proxies in front of a Redis: one that tells nobody anything, and one whose metrics are read.
func equip(b *testing.B, server *harness.Redis) (off, on equipped) {
	b.Helper()
	off = equipped{"off", harness.StartProxy(b, harness.ProxyOptions{Name: "off", Redis: server, ConfigYAML: rules})}
	on = equipped{"on", harness.StartProxy(b, harness.ProxyOptions{Name: "on", Redis: server, ConfigYAML: rules, Admin: true})}
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
				if err := scrape("http://" + on.proxy.Admin + "/metrics"); err != nil {
					b.Error(err)
				}
			}
		}
	}()
	b.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return off, on
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

// BenchmarkTelemetry compares a proxy with all telemetry on with one that has none, in turns.
func BenchmarkTelemetry(b *testing.B) {
	results := table{title: "Telemetry on over off, medians of the rounds' ratios"}
	results.add("what", "off, per second", "throughput", "proxy CPU", "off, CPU µs")
	for _, l := range []load{{256, 1, 1}, {256, 50, 1}, {256, 50, 16}} {
		b.Run(fmt.Sprintf("pass/conns=%d/pipeline=%d", l.connections, l.pipeline), func(b *testing.B) { l.equipped(b, &results) })
	}
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("cycle/clients=%d", n), func(b *testing.B) { equippedCycle(b, n, &results) })
	}
	results.print(os.Stdout)
}

func (l load) equipped(b *testing.B, results *table) {
	b.Helper()
	server := harness.StartRedis(b)
	off, on := equip(b, server)
	var runners []*runner
	for _, e := range []equipped{off, on} {
		runners = append(runners, newRunner(e.name, e.proxy.Addr, e.proxy.Pid(), server.Pid()))
	}
	n := l.requests(b, off.proxy.Addr)
	order := slices.Clone(runners)
	for b.Loop() {
		for _, command := range commands {
			for _, r := range order {
				r.turn(b, l, command, n)
			}
		}
		slices.Reverse(order)
	}
	without, with := runners[0], runners[1]
	cpu := with.mean(func(command string) series { return with.got[command].proxyCPU.over(without.got[command].proxyCPU) })
	report(b, results, fmt.Sprintf("GET, SET of %d bytes, %d connections, pipeline %d", l.value, l.connections, l.pipeline),
		without.mean(func(command string) series { return without.got[command].rate }), with.over(without), cpu, without.proxyCPU())
}

func equippedCycle(b *testing.B, clients int, results *table) {
	b.Helper()
	server := harness.StartRedis(b)
	off, on := equip(b, server)
	var contestants []*contestant
	for _, e := range []equipped{off, on} {
		contestants = append(contestants, newContestant(b.Context(), b, way{name: e.name, guard: fenced}, e.proxy.Addr, clients, clients))
	}
	proxies := map[string]int{"off": off.proxy.Pid(), "on": on.proxy.Pid()}
	order := slices.Clone(contestants)
	for b.Loop() {
		for _, c := range order {
			if err := c.turn(b.Context(), aloneTurn, proxies[c.name], server.Pid()); err != nil {
				b.Fatal(err)
			}
		}
		slices.Reverse(order)
	}
	without, with := contestants[0], contestants[1]
	report(b, results, fmt.Sprintf("guarded cycles, %d clients", clients), without.rate.median(), with.rate.over(without.rate).median(),
		with.proxy.over(without.proxy).median(), without.proxy.median())
}

func report(b *testing.B, results *table, what string, rate, throughput, cpu, micros float64) {
	b.Helper()
	results.add(what, rate, throughput, cpu, micros)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(throughput, "x_throughput")
	b.ReportMetric(cpu, "x_cpu")
}
