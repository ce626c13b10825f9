package observe

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Rows that are shown of each kind; --json has all.
const (
	mostRows    = 20
	mostClients = 5
)

// Write writes the report for people.
func (r *Report) Write(out io.Writer) error {
	w := &writer{out: out}
	w.printf("Observed for %s: ", short(time.Duration(r.Seconds*float64(time.Second))))
	modified, idle := r.split()
	if len(r.Patterns) == 0 {
		w.printf("no command with keys has passed.\n")
		return w.err
	}
	w.printf("%s lost.\n", count(r.Lost, "update"))
	if len(modified) > 0 {
		w.printf("\nKeys that are read, and written from what was read:\n\n")
		w.table(modified)
		for i := range modified {
			w.detail(&modified[i])
		}
	}
	if len(idle) > 0 {
		w.printf("\nKeys that are not, and lose nothing:\n\n")
		w.others(idle)
	}
	w.rules(r)
	w.doubts(r)
	return w.err
}

// split takes the patterns that lose updates, or might, apart from the others.
func (r *Report) split() (modified, idle []Pattern) {
	for i := range r.Patterns {
		if r.Patterns[i].Sequences > 0 {
			modified = append(modified, r.Patterns[i])
		} else {
			idle = append(idle, r.Patterns[i])
		}
	}
	return modified, idle
}

// writer keeps the first error.
type writer struct {
	out io.Writer
	err error
}

func (w *writer) printf(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format, args...)
	}
}

func (w *writer) tabular(fill func(t io.Writer)) {
	if w.err != nil {
		return
	}
	t := tabwriter.NewWriter(w.out, 0, 0, 2, ' ', 0)
	fill(t)
	w.err = t.Flush()
}

func (w *writer) table(patterns []Pattern) {
	w.tabular(func(t io.Writer) {
		fmt.Fprint(t, "pattern\tkeys\treads\twritten\tlost\tby stale writes\toverlaps\tread to write\t\ta lock would have\n")
		fmt.Fprint(t, "\t\t\tafterwards\t\t\t\tmedian\tp99\tmade wait in all\n")
		for i := range patterns[:min(len(patterns), mostRows)] {
			p := &patterns[i]
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", p.Pattern, p.Keys, p.Reads, p.Sequences, p.Lost, p.Stale, p.Overlaps,
				duration(p.HeldP50), duration(p.HeldP99), duration(p.Waited))
		}
	})
	w.left(len(patterns))
}

func (w *writer) left(n int) {
	if n > mostRows {
		w.printf("… and %d more (--json has all)\n", n-mostRows)
	}
}

// detail says who did what to the keys of a pattern.
func (w *writer) detail(p *Pattern) {
	w.printf("\n%s: %s\n", p.Pattern, commands(p.Commands))
	if p.Further > 0 {
		w.printf("  %s came after the first one of a sequence\n", count(p.Further, "write"))
	}
	if p.Within > 0 {
		w.printf("  %d of those lost were lost between tasks of one client\n", p.Within)
	}
	if p.Guessed > 0 {
		w.printf("  %d of those lost are a guess: several tasks share a connection or a pool, and which of them has read what can't be told\n", p.Guessed)
	}
	if p.Pools {
		w.printf("  its clients pool: writes come over other connections than the reads before them\n")
	}
	for i := range p.Clients[:min(len(p.Clients), mostClients)] {
		a := &p.Clients[i]
		w.printf("  %s: %s, %s, %d of them after a read, %d stale\n", a.Client, count(a.Reads, "read"), count(a.Writes, "write"), a.Sequences, a.Stale)
	}
	if n := len(p.Clients) - mostClients; n > 0 {
		w.printf("  … and %s\n", count(int64(n), "more client"))
	}
}

// commands lists the most frequent first.
func commands(all map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	var texts []string
	for _, name := range names[:min(len(names), 8)] {
		texts = append(texts, fmt.Sprintf("%s %d", strings.ToUpper(strings.ReplaceAll(name, "|", " ")), all[name]))
	}
	return strings.Join(texts, ", ")
}

func (w *writer) others(patterns []Pattern) {
	w.tabular(func(t io.Writer) {
		fmt.Fprint(t, "pattern\tkeys\treads\twrites\tatomic\tcommands\n")
		for i := range patterns[:min(len(patterns), mostRows)] {
			p := &patterns[i]
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\n", p.Pattern, p.Keys, p.Reads, p.Writes, p.Atomic, commands(p.Commands))
		}
	})
	w.left(len(patterns))
}

func (w *writer) rules(r *Report) {
	if len(r.Rules) == 0 {
		w.printf("\nNo rule is needed for what was seen.\n")
		return
	}
	w.printf("\nProposed rules, for the configuration:\n\nrules:\n%s", r.YAML)
}

// doubts say what the figures leave out.
func (w *writer) doubts(r *Report) {
	var all []string
	note := func(n int64, one, format string) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, count(n, one)))
		}
	}
	note(r.Unsure, "command", "%s did not get its turn in time: the order is a guess.")
	if r.Scripts > 0 {
		all = append(all, fmt.Sprintf("%s with keys: each counts as an atomic update of its KEYS, what it does is not seen.", scripts(r.Scripts)))
	}
	note(r.Unread, "call", "%s with keys that can't all be told: the others are not counted.")
	note(r.Left.Keys, "time", "%s a key was forgotten for lack of room: losses of it may be missing.")
	note(r.Left.Clients, "time", "%s a client was one too many to be told apart.")
	note(r.Rest, "key", "%s found no place among the patterns.")
	all = append(all, "Not seen: writers that do not come through this proxy, keys that expire or are evicted, sequences that read one key and write another.")
	w.printf("\n%s\n", strings.Join(all, "\n"))
}

func scripts(n int64) string {
	if n == 1 {
		return "1 call of a script"
	}
	return fmt.Sprintf("%d calls of scripts", n)
}

func duration(ms float64) string { return short(time.Duration(ms * float64(time.Millisecond))) }

// short writes a time with no more digits than one wants to read.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}
