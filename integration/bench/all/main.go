// Command all runs all benchmarks of the project, one after the other, and writes what they have measured:
//
//	go run ./integration/bench/all -rounds 5
//
// It changes docs/benchmarks.md, the plots beside it, and the figures in README.md, or nothing if a benchmark fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/bench/report"
)

const (
	document = "docs/benchmarks.md"
	readme   = "README.md"
	command  = "make bench-all"
)

func main() {
	rounds := flag.Int("rounds", 5, "how many turns everybody in a comparison has")
	sections := flag.String("sections", "dist/bench", "`directory` for what each benchmark has measured")
	only := flag.String("only", "", "`names` of sections, with commas: measure these anew, and take the others from the last run's -sections")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rounds, *sections, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench-all:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func run(ctx context.Context, rounds int, sections, only string) error {
	sections, err := filepath.Abs(sections) // the benchmarks run in their own folders
	if err != nil {
		return err
	}
	d := &report.Document{Command: command, Rounds: rounds, Only: only, Machine: report.Look()}
	if d.Versions, err = versions(); err != nil {
		return err
	}
	began := time.Now()
	for _, p := range parts {
		if only != "" && !slices.Contains(strings.Split(only, ","), p.section) {
			continue
		}
		began := time.Now()
		if err := p.measure(ctx, rounds, sections); err != nil {
			return fmt.Errorf("%s: %w", p.section, err)
		}
		fmt.Printf("%s took %v\n", p.section, time.Since(began).Round(time.Second))
	}
	d.Took = time.Since(began)
	for _, p := range parts {
		s, err := report.Load(sections, p.section)
		if err != nil {
			return err
		}
		d.Chapters = append(d.Chapters, report.Chapter{Section: s, Command: p.command(rounds)})
	}
	return d.Write(document, readme)
}

// measure runs the benchmark, which saves its section.
func (p part) measure(ctx context.Context, rounds int, sections string) error {
	if err := os.Remove(filepath.Join(sections, p.section+".json")); err != nil && !os.IsNotExist(err) {
		return err
	}
	test := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark"+p.benchmark+"$", "-benchtime", fmt.Sprintf("%dx", rounds), "-timeout", "0",
		p.folder, "-report", sections)
	test.Cancel = func() error { return test.Process.Signal(os.Interrupt) }
	test.WaitDelay = 30 * time.Second
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	return test.Run()
}

// versions are of all that takes part.
func versions() ([]report.Version, error) {
	modules, err := report.Modules("go.mod", "github.com/redis/go-redis/v9", "github.com/go-redsync/redsync/v4", "github.com/bsm/redislock", "github.com/redis/rueidis", "go.etcd.io/etcd/client/v3")
	if err != nil {
		return nil, err
	}
	packages, err := report.NodePackages("integration/bench/programs/package.json")
	if err != nil {
		return nil, err
	}
	return slices.Concat([]report.Version{report.Product()}, report.Programs(), []report.Version{report.Python("redis")}, modules, packages), nil
}
