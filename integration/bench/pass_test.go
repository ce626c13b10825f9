package bench

import (
	"encoding/csv"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// load is one setting of redis-benchmark. The requests take some 200 ms straight at Redis; a lone
// connection's rate there depends on the cores that it and Redis happen to be on.
type load struct {
	connections, pipeline, requests int
}

var loads = []load{
	{1, 1, 6000},
	{50, 1, 20000},
	{1, 16, 30000},
	{50, 16, 200000},
}

func BenchmarkPass(b *testing.B) {
	results := table{title: "Unguarded GET and SET of 256 bytes, through the proxy over straight"}
	results.add("connections", "pipeline", "command", "x direct", "proxy CPU", "Redis CPU", "Redis CPU straight")
	for _, l := range loads {
		b.Run(fmt.Sprintf("conns=%d/pipeline=%d", l.connections, l.pipeline), func(b *testing.B) {
			pass(b, &results, l)
		})
	}
	results.print(os.Stdout)
}

// passing is what was measured of one command.
type passing struct {
	direct, through                    series // requests per second
	proxyCPU, redisCPU, redisCPUDirect series // µs per request
}

// pass compares the proxy with no proxy under one load.
func pass(b *testing.B, results *table, l load) {
	b.Helper()
	server := harness.StartRedis(b)
	proxy := harness.StartProxy(b, harness.ProxyOptions{Redis: server, ConfigYAML: rules})
	commands := []string{"SET", "GET"}
	measured := map[string]*passing{}
	for _, command := range commands {
		measured[command] = &passing{}
	}
	direct := func(command string) {
		m, redisCPU := measured[command], cpuTime(server.Pid())
		m.direct = append(m.direct, l.run(b, server.Addr, command))
		m.redisCPUDirect = append(m.redisCPUDirect, micros(cpuTime(server.Pid())-redisCPU, l.requests))
	}
	through := func(command string) {
		m, proxyCPU, redisCPU := measured[command], cpuTime(proxy.Pid()), cpuTime(server.Pid())
		m.through = append(m.through, l.run(b, proxy.Addr, command))
		m.proxyCPU = append(m.proxyCPU, micros(cpuTime(proxy.Pid())-proxyCPU, l.requests))
		m.redisCPU = append(m.redisCPU, micros(cpuTime(server.Pid())-redisCPU, l.requests))
	}
	first, second := direct, through
	for b.Loop() {
		for _, command := range commands {
			first(command)
			second(command)
		}
		first, second = second, first
	}
	for _, command := range commands {
		m := measured[command]
		xDirect := m.through.over(m.direct).median()
		results.add(l.connections, l.pipeline, command, xDirect, m.proxyCPU.median(), m.redisCPU.median(), m.redisCPUDirect.median())
		b.Run("command="+command, func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(xDirect, "x_direct")
		})
	}
}

// run loads addr with one command and returns the requests per second.
func (l load) run(b *testing.B, addr, command string) float64 {
	b.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		b.Fatal(err)
	}
	out, err := exec.CommandContext(b.Context(), "redis-benchmark", "-h", host, "-p", port, "-t", command, "-d", "256", "--csv",
		"-c", strconv.Itoa(l.connections), "-P", strconv.Itoa(l.pipeline), "-n", strconv.Itoa(l.requests)).Output()
	if err != nil {
		b.Fatalf("redis-benchmark (apt-get install redis-tools): %v", err)
	}
	rate, err := rateIn(string(out), command)
	if err != nil {
		b.Fatalf("redis-benchmark printed %q: %v", out, err)
	}
	return rate
}

// rateIn finds a command's requests per second in redis-benchmark's CSV.
func rateIn(text, command string) (float64, error) {
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return 0, err
	}
	for _, line := range lines {
		if len(line) > 1 && line[0] == command {
			return strconv.ParseFloat(line[1], 64)
		}
	}
	return 0, fmt.Errorf("no line of %s", command)
}
