//go:build integration

package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// patience is longer than any task takes that ends at all.
const patience = 2 * time.Minute

// client is a client library as an agent uses it.
type client struct {
	name      string
	errorType string // of an error reply

	// do does a task. Any goroutine may call it.
	do func(ctx context.Context, task string, to servers) (report, error)
}

// servers are where a task's commands go, each a "host:port".
type servers struct {
	proxy string
	redis string // for what the proxy must not see
}

// report is what each step of a task came to.
type report map[string]outcome

type outcome struct {
	Value any    `json:"value"` // as encoding/json decodes it
	Error string `json:"error"`
}

// clients returns all clients, each with every protocol that it speaks.
func clients(t *testing.T) []client {
	t.Helper()
	python := []string{harness.Python(t), filepath.Join("python", "redispy.py")}
	harness.InstallNodePackages(t, "node")
	return []client{
		{"redis-py", "ResponseError", program(python)},
		{"ioredis", "ReplyError", program([]string{"node", filepath.Join("node", "ioredis.js")})},
		{"node-redis RESP2", "SimpleError", program([]string{"node", filepath.Join("node", "node-redis.js")}, "2")},
		{"node-redis RESP3", "SimpleError", program([]string{"node", filepath.Join("node", "node-redis.js")}, "3")},
		{"go-redis RESP2", "proto.RedisError", goRedis(2)},
		{"go-redis RESP3", "proto.RedisError", goRedis(3)},
		{"rueidis RESP2", "*rueidis.RedisError", rueidisClient(2)},
		{"rueidis RESP3", "*rueidis.RedisError", rueidisClient(3)},
	}
}

// does does a task to its end.
func (c client) does(t *testing.T, task string, to servers) report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	report, err := c.do(ctx, task, to)
	if err != nil {
		t.Fatalf("%s, %s: %v", c.name, task, err)
	}
	return report
}

// program is a client that is a process: "program... task port redis-port args...".
func program(program []string, args ...string) func(context.Context, string, servers) (report, error) {
	return func(ctx context.Context, task string, to servers) (report, error) {
		line := append([]string{}, program[1:]...)
		line = append(line, task, port(to.proxy), port(to.redis))
		command := exec.CommandContext(ctx, program[0], append(line, args...)...)
		var complaints bytes.Buffer
		command.Stderr = &complaints
		out, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("%w\n%s%s", err, out, &complaints)
		}
		steps := report{}
		if err := json.Unmarshal(out, &steps); err != nil {
			return nil, fmt.Errorf("%w in %q\n%s", err, out, &complaints)
		}
		return steps, nil
	}
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// tasks are the tasks of a client in this process.
type tasks map[string]func(ctx context.Context, r report, to servers) error

func (all tasks) do(ctx context.Context, task string, to servers) (report, error) {
	steps := report{}
	return steps, all[task](ctx, steps, to)
}

// step takes a step and reports what it returns.
func (r report) step(name string, take func() (any, error)) {
	value, err := take()
	if err != nil {
		r[name] = outcome{Error: fmt.Sprintf("%T: %v", err, err)}
		return
	}
	r[name] = outcome{Value: decoded(value)}
}

// decoded is a value as it comes out of a program's report.
func decoded(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		panic(err)
	}
	return decoded
}

// refused is what a program sees of an error reply: its type and its text.
func refused(err error) []string {
	if err == nil {
		return []string{"no error", ""}
	}
	return []string{fmt.Sprintf("%T", err), err.Error()}
}

// together runs n workers and returns what went wrong.
func together(n int, work func(i int) error) []string {
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		failed = []string{}
	)
	for i := range n {
		all.Go(func() {
			if err := work(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err.Error())
			}
		})
	}
	all.Wait()
	return failed
}

// increment counts one up in a JSON document.
func increment(document, name string) (string, error) {
	counts := map[string]int{}
	if document != "" {
		if err := json.Unmarshal([]byte(document), &counts); err != nil {
			return "", err
		}
	}
	counts[name]++
	text, err := json.Marshal(counts)
	return string(text), err
}
