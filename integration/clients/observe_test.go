//go:build integration

package clients

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Workers of all clients count in one document: what is missing in the end was lost.
func TestObserverCountsWhatWorkersOfAllClientsLose(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	observer := harness.StartObserver(t, server)
	all := clients(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, err := range together(len(all), func(i int) error {
		r, err := all[i].do(ctx, "workers", servers{observer.Addr, server.Addr})
		if err == nil {
			r.want(t, map[string]any{"increments": []any{}})
		}
		return err
	}) {
		t.Error(err)
	}
	counts, kept := map[string]int{}, 0
	if err := json.Unmarshal([]byte(server.Client().Get(t.Context(), "ctx:doc").Val()), &counts); err != nil {
		t.Fatal(err)
	}
	for _, n := range counts {
		kept += n
	}
	report := observer.Report()
	if lost := len(all)*8*20 - kept; report.Lost != int64(lost) || lost == 0 || report.Unsure != 0 {
		t.Errorf("counted %d, lost %d, order unsure of %d", report.Lost, lost, report.Unsure)
	}
	var libraries []string
	for _, p := range report.Patterns {
		for _, c := range p.Clients {
			name, _, _ := strings.Cut(c.Library, " ")
			libraries = append(libraries, name)
		}
	}
	for _, library := range []string{"ioredis", "node-redis", "go-redis", "rueidis", ""} { // redis-py of Debian does not say
		if !slices.ContainsFunc(libraries, func(l string) bool { return strings.HasPrefix(l, library) }) {
			t.Errorf("%s is not among the libraries %q", library, libraries)
		}
	}
}

func TestObserverCountsWhatTasksOnOneConnectionLose(t *testing.T) {
	t.Parallel()
	for _, c := range clients(t) {
		if !strings.Contains(c.name, "redis RESP2") && c.name != "ioredis" || strings.HasPrefix(c.name, "go-") {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			server := harness.StartRedis(t)
			observer := harness.StartObserver(t, server)
			c.does(t, "shared", servers{observer.Addr, server.Addr}).want(t, map[string]any{"rounds": 10.0})
			report := observer.Report()
			if p := report.Patterns[0]; p.Lost != 30 || p.Within != 30 || p.Sequences != 40 {
				t.Errorf("%+v", p)
			}
		})
	}
}
