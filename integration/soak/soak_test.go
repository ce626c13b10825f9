//go:build integration

package soak

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var (
	duration = flag.Duration("duration", 20*time.Second, "how long the soak lasts, in `time`; four spells at least")
	faulty   = flag.Bool("faults", true, "whether there are faults")
	seed     = flag.Uint64("seed", 0, "what the faults follow from, a `number`; 0 makes one up")
)

const (
	spells = 4 // at least. The first warms up, and every so many have no faults
	faults = 4 // in each of the others: in three of them all kinds have come
)

// spellLength is no longer than is good for a trend.
func spellLength() time.Duration { return min(max(*duration/8, 3*time.Second), 15*time.Second) }

func TestNothingGrowsUnderLoadAndFaults(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().Unix())
	}
	t.Logf("seed %d", *seed)
	s := newStreet(t, *seed)
	s.fill()
	idle := s.idle()
	t.Logf("idle: %d goroutines, %d descriptors, heap %.2f MB, resident %.1f MB", idle.goroutines, idle.descriptors, mb(idle.heap), mb(idle.resident))
	t.Log("    time  faults   visits  commands   under load: goroutines  descriptors  records   after: goroutines  descriptors  heap MB  resident MB")

	var during, after []reading // of each spell but the first
	cost, played := toll{}, 0
	start := time.Now()
	for n := 0; n < spells || time.Since(start) < *duration; n++ {
		happen := faults
		if n%spells == 0 || !*faulty {
			happen = 0 // nothing is excused
		}
		under := s.spell(spellLength(), happen, cost.add)
		then := s.calm(idle)
		played += happen
		t.Logf("%8s %7d %8d %9d %24d %12d %8d %19d %12d %8.2f %12.1f", time.Since(start).Round(100*time.Millisecond), played, s.visits(),
			s.home.commands.Load()+s.next.commands.Load(), under.goroutines, under.descriptors, under.records,
			then.goroutines, then.descriptors, mb(then.heap), mb(then.resident))
		if n > 0 {
			during, after = append(during, under), append(after, then)
		}
	}

	for i, v := range visits {
		if s.counts[i].Load() == 0 {
			t.Errorf("nobody came for: %s", v.name)
		}
	}
	for _, k := range kinds {
		if *faulty && len(cost[k.name]) == 0 {
			t.Errorf("it never happened: %s", k.name)
		}
	}
	t.Log("\n" + cost.table(s.home, s.next))
	updates, wrong := s.home.ledger.audit(func(key string) (int64, error) { return s.straight.Get(t.Context(), key).Int64() })
	t.Logf("updates: %d acknowledged, %d of which nobody could tell", updates.acknowledged, updates.unknown)
	if len(wrong) > 0 {
		t.Errorf("updates:\n%s", strings.Join(wrong, "\n"))
	}
	table, grown := verdict(idle, during, after)
	t.Log("\n" + table)
	if len(grown) > 0 {
		t.Errorf("grown: %s", strings.Join(grown, ", "))
	}
	if !t.Failed() {
		t.Logf("flat after %d spells with %d faults, and no acknowledged update is missing", len(after)+1, played)
	}
}

// visits are those that were paid to the subject.
func (s *street) visits() (n int64) {
	for i := range s.counts {
		n += s.counts[i].Load()
	}
	return n
}
