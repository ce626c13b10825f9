//go:build chaos

package chaos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/chaos/breakage"
	"github.com/fence-proxy/fence-proxy/integration/chaos/oracle"
	"github.com/fence-proxy/fence-proxy/integration/harness"
)

const (
	program = "github.com/fence-proxy/fence-proxy/cmd/fence-proxy"
	// limit is how long a broken promise may go unnoticed.
	limit = time.Minute
	// spell is how long a world lasts in which it may be noticed.
	spell = 3 * time.Second
)

// trap is where a broken promise is noticed soon: what agents do, and what goes wrong.
type trap struct {
	mix    string
	faults string            // kinds, each as often as the others; "" for none
	rule   map[string]string // its settings
	redis  []harness.RedisOption
}

// traps are what is not the usual one.
var traps = map[string]trap{
	"newest-grant":        {mix: "grant=1,update=2"},
	"greater-token":       {mix: "grow=1", faults: "proxy-redis cut after some bytes"},
	"one-step":            {mix: "update=1", rule: map[string]string{"mode": "fence"}},
	"first-read":          {mix: "update=1", rule: map[string]string{"mode": "fence"}},
	"stored-since":        {mix: "update=1", rule: map[string]string{"mode": "fence"}},
	"held-at-write":       {mix: "grant=2,blind=1,update=1"},
	"one-holder":          {mix: "grant=1,update=1"},
	"used-up":             {mix: "grant=1,update=1"},
	"grants-grow":         {mix: "grant=3,update=1", faults: "record evicted|all flushed"},
	"missing-record":      {mix: "update=1", faults: "all flushed"},
	"no-silent-hold":      {mix: "late=1", faults: "proxy frozen", rule: map[string]string{"lease": "300ms", "wait": "1s"}},
	"unknown-is-said":     {mix: "push=1,update=1", faults: "proxy-redis cut after some bytes"},
	"never-twice":         {mix: "push=1,count=1,update=1", faults: "proxy-redis cut after some bytes"},
	"unguarded-untouched": {mix: "plain=1,update=1"},
	"unknown-command":     {mix: "foreign=1,update=2", redis: []harness.RedisOption{harness.WithArgs("--rename-command", "GETSET", "writeforeign")}},
	"records-go":          {mix: "blind=1,update=1"},
	"leases-end":          {mix: "update=1", faults: "proxy killed"},
}

// breakable builds the proxy that can be broken.
func breakable(tb testing.TB) string {
	tb.Helper()
	overlaid.Do(func() {
		var root, dir string
		if root, overlayErr = filepath.Abs("../.."); overlayErr != nil {
			return
		}
		if dir, overlayErr = os.MkdirTemp("", "chaos-overlay-"); overlayErr == nil { //nolint:usetesting // all tests use it; harness.Main removes it
			overlay, overlayErr = breakage.Overlay(root, dir)
		}
	})
	if overlayErr != nil {
		tb.Fatal(overlayErr)
	}
	return harness.BuildProgram(tb, program, "-tags", "breakable", "-overlay", overlay)
}

var (
	overlaid   sync.Once
	overlay    string
	overlayErr error
)

func TestEachBrokenPromiseIsNoticed(t *testing.T) {
	binary := breakable(t)
	var mu sync.Mutex
	var noticed []string
	t.Run("each", func(t *testing.T) {
		for _, p := range breakage.All {
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				start := time.Now()
				for seed := uint64(1); ; seed++ {
					v := traps[p.Name].spring(t, binary, p.Name, seed)
					if v != nil {
						told := fmt.Sprintf("%-20s %6.1fs  %s\n%29s instead: %s\n%29s noticed: %s: %.120s",
							p.Name, time.Since(start).Seconds(), p.Says, "", p.Broken, "", v.Promise, v.Text)
						mu.Lock()
						noticed = append(noticed, told)
						mu.Unlock()
						return
					}
					if time.Since(start) > limit {
						t.Fatalf("nobody notices that %s: %s", p.Broken, p.Says)
					}
				}
			})
		}
	})
	t.Logf("%d broken promises, and what has noticed them:\n%s", len(noticed), strings.Join(noticed, "\n"))
}

// spring lets a broken proxy work in a world, and returns what was noticed.
func (p trap) spring(t *testing.T, binary, name string, seed uint64) (found *oracle.Violation) {
	t.Helper()
	t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		w := newWorld(t, seed, size{
			proxies: 2, agents: 4, sessions: 2, mix: p.mix, think: "4ms", proxy: binary, args: []string{"--break", name}, rule: p.rule, redis: p.redis,
		})
		w.patience = 5 * time.Second
		var which []kind
		for _, k := range w.kinds {
			if p.faults != "" && strings.Contains("|"+p.faults+"|", "|"+k.name+"|") {
				which = append(which, k)
			}
		}
		plan := newPlan(seed, which)
		for end := time.Now().Add(spell); found == nil && time.Now().Before(end); {
			if len(which) > 0 {
				if r := w.play([]*fault{plan.alone()}); r.stuck != "" {
					found = stuckAt(r.stuck, w.patience)
					return
				}
			} else {
				time.Sleep(spell / 4)
			}
			found = oracle.Judge(w.evidence())
		}
		if found != nil {
			return
		}
		if found = oracle.Judge(w.end()); found == nil {
			found = w.lasting()
		}
	})
	return found
}

// That is the sixth invariant, and a limit: who does not write through the proxy is not fenced.
func TestAWriterAroundTheProxyIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, size{proxies: 1, agents: 4, around: 1, sessions: 1, mix: "update=1"})
	var found *oracle.Violation
	harness.Eventually(t, limit, func() bool {
		found = oracle.Judge(w.evidence())
		return found != nil
	}, "an update is lost")
	t.Log(found)
}

// Nothing of all that is in the product.
func TestTheProductCantBeBroken(t *testing.T) {
	code, output := harness.RunProxy(t, "--break", "newest-grant")
	if code != 2 || !strings.Contains(output, "unknown flag: --break") {
		t.Errorf("--break: exit %d, %s", code, output)
	}
	mark := []byte("integration/chaos/breakage")
	for path, want := range map[string]bool{harness.Build(t): false, breakable(t): true} {
		symbols, err := exec.Command("go", "tool", "nm", path).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, symbols)
		}
		if got := bytes.Contains(symbols, mark); got != want {
			t.Errorf("%s has symbols of %s: %v", path, mark, got)
		}
	}
}
