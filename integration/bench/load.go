package bench

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// load is one setting of redis-benchmark.
type load struct {
	value                 int // bytes
	connections, pipeline int
}

var loads = []load{
	{256, 1, 1},
	{256, 1, 16},
	{256, 50, 1},
	{256, 50, 16},
	{256, 500, 1},
	{16 << 10, 1, 1},
	{16 << 10, 1, 16},
	{16 << 10, 50, 1},
	{16 << 10, 50, 16},
	{16 << 10, 500, 1},
}

// commands in this order: GET reads what SET has written.
var commands = []string{"SET", "GET"}

// slice is how long one command lasts straight at Redis; through a proxy it takes as long as it
// takes. A lone connection's rate depends on the cores that it and Redis happen to be on, so many
// short slices say more than few long ones.
const slice = 300 * time.Millisecond

// lone reports whether there is one client with one command at a time.
func (l load) lone() bool { return l.connections == 1 && l.pipeline == 1 }

// requests is how many of them fill a slice at addr. The value is there afterwards.
func (l load) requests(tb testing.TB, addr string) int {
	tb.Helper()
	few := max(1000*l.pipeline, 10*l.connections)
	rate := l.run(tb, addr, commands[0], few).rate
	return max(few, int(rate*slice.Seconds()))
}

// outcome is what redis-benchmark says of one run.
type outcome struct {
	rate float64 // requests per second
	p50  float64 // µs from request to reply
}

// run sends n requests of one command to addr.
func (l load) run(tb testing.TB, addr, command string, n int) outcome {
	tb.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	out, err := exec.CommandContext(tb.Context(), "redis-benchmark", "-h", host, "-p", port, "-t", command, "--csv",
		"-d", strconv.Itoa(l.value), "-c", strconv.Itoa(l.connections), "-P", strconv.Itoa(l.pipeline), "-n", strconv.Itoa(n)).Output()
	if err != nil {
		tb.Fatalf("redis-benchmark (apt-get install redis-tools) at %s: %v\n%s", addr, err, out)
	}
	o, err := parseOutcome(string(out), command)
	if err != nil {
		tb.Fatalf("redis-benchmark at %s printed %q: %v", addr, out, err)
	}
	return o
}

// parseOutcome finds a command's line in redis-benchmark's CSV.
func parseOutcome(text, command string) (outcome, error) {
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return outcome{}, err
	}
	if len(lines) == 0 {
		return outcome{}, errors.New("no lines")
	}
	for _, line := range lines[1:] {
		if line[0] == command {
			return parseLine(lines[0], line)
		}
	}
	return outcome{}, fmt.Errorf("no line of %s", command)
}

func parseLine(names, line []string) (outcome, error) {
	figures := map[string]float64{}
	for i, name := range names[1:] {
		figure, err := strconv.ParseFloat(line[i+1], 64)
		if err != nil {
			return outcome{}, fmt.Errorf("%s: %w", name, err)
		}
		figures[name] = figure
	}
	o := outcome{rate: figures["rps"], p50: figures["p50_latency_ms"] * 1000}
	if o.rate <= 0 || o.p50 <= 0 {
		return outcome{}, errors.New("no rps or p50_latency_ms")
	}
	return o, nil
}
