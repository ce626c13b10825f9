//go:build chaos

package chaos

import (
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
	"github.com/fence-proxy/fence-proxy/integration/chaos/oracle"
	"github.com/fence-proxy/fence-proxy/integration/harness"
)

var (
	lasting = flag.Duration("time", 30*time.Second, "how long the faults last, in `time`, all seeds together")
	seeds   = flag.Int("seeds", 3, "how many seeds")
	where   = flag.String("sites", "redis,clock,etcd", "where data and locks are, one after the other with each seed: `names`, or all")
	first   = flag.Uint64("seed", 0, "the first `seed`; 0 makes one up")
	out     = flag.String("out", "../../dist/chaos", "where what shows a failure is kept, in a `directory`")
)

func TestMain(m *testing.M) { harness.Main(m) }

// outDir is where a test keeps what shows its failure.
func outDir(tb testing.TB) string {
	tb.Helper()
	dir, err := filepath.Abs(filepath.Join(*out, strings.NewReplacer("/", "-", ",", "").Replace(tb.Name())))
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

func TestNothingAcknowledgedIsLostWhateverGoesWrong(t *testing.T) {
	seed := *first
	if seed == 0 {
		seed = uint64(time.Now().Unix())
	}
	chosen := choose(t)
	times := table{}
	for n := range *seeds {
		seed := seed + uint64(n)
		site := chosen[n%len(chosen)]
		t.Run(fmt.Sprintf("seed %d, %s", seed, site.name), func(t *testing.T) {
			w := newWorld(t, seed, size{site: site, proxies: 3, agents: 8, sessions: 4})
			w.run(*lasting/time.Duration(*seeds), times)
		})
		if t.Failed() {
			break
		}
	}
	t.Log("\n" + times.String())
}

// choose returns the sites that are asked for.
func choose(t *testing.T) (chosen []site) {
	t.Helper()
	for _, s := range sites {
		if *where == "all" || slices.Contains(strings.Split(*where, ","), s.name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		t.Fatalf("there is no site %q", *where)
	}
	return chosen
}

// run has things go wrong for a while, and judges what came of it.
func (w *world) run(lasts time.Duration, times table) {
	w.Helper()
	w.pictures = outDir(w.TB)
	if stuck := w.written(); stuck != "" {
		w.Fatalf("session %s is not written though all is well", stuck)
	}
	rounds, stuck := 0, ""
	for plan, end := newPlan(w.seed, w.kinds), time.Now().Add(lasts); time.Now().Before(end) && stuck == ""; rounds++ {
		r := w.play(plan.next())
		if stuck = r.stuck; stuck == "" {
			times.add(r)
		}
	}
	if stuck != "" {
		w.fail(stuckAt(stuck, w.patience))
		return
	}
	e := w.end()
	v := oracle.Judge(e)
	if v == nil {
		v = w.lasting()
	}
	if v != nil {
		w.fail(v)
		return
	}
	w.Logf("seed %d, %s: %d rounds of faults, %s", w.seed, w.site.name, rounds, tally(e))
}

// tally counts what was done.
func tally(e oracle.Evidence) string {
	fates := map[history.Fate]int{}
	var erased int64
	for _, o := range e.Ops {
		if o.Kind == history.Erase {
			erased = max(erased, o.Call)
		}
	}
	gone := 0
	for _, o := range e.Ops {
		if !o.Writes() && o.Kind != history.Push && o.Kind != history.Count {
			continue
		}
		fates[o.Fate]++
		if o.Fate == history.Done && o.Return < erased {
			gone++
		}
	}
	fates[history.Unknown] += fates[history.Pending]
	return fmt.Sprintf("%d writes acknowledged (%d of them before all was erased by an operator or a loss of Redis's own), %d refused, %d unknown",
		fates[history.Done], gone, fates[history.Refused], fates[history.Unknown])
}

// fail tells all that is needed to see why, and to see it again.
func (w *world) fail(v *oracle.Violation) {
	w.Helper()
	w.Errorf("seed %d: %v\nHistory: %s\nPicture: %s\nAgain: make chaos SEEDS=1 SEED=%d SITES=%s CHAOS_TIME=%v\nWhat went wrong:\n%s",
		w.seed, v, w.keep(outDir(w.TB)), v.Picture, w.seed, w.site.name, *lasting/time.Duration(*seeds), strings.Join(w.log, "\n"))
}

func TestAPlanFollowsFromItsSeed(t *testing.T) {
	tell := func(seed uint64) string {
		var b strings.Builder
		p := newPlan(seed, kinds)
		for range 200 {
			for _, e := range events(p.next()) {
				fmt.Fprintln(&b, e.at, e.fault.name, e.fault.n, e.fault.lasts, e.ends)
			}
		}
		return b.String()
	}
	one, again := tell(1), tell(1)
	if one != again {
		t.Error("the same seed gives another plan")
	}
	if one == tell(2) {
		t.Error("another seed gives the same plan")
	}
	missing := map[string]bool{}
	for i := range kinds {
		missing[kinds[i].name] = !strings.Contains(one, " "+kinds[i].name+" ")
	}
	maps.DeleteFunc(missing, func(_ string, yes bool) bool { return !yes })
	if len(missing) > 0 {
		t.Error("never in 200 rounds:", slices.Sorted(maps.Keys(missing)))
	}
}
