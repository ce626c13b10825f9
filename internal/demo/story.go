package demo

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// story is what a demo tells the person who runs it. It keeps the first error of its writer.
type story struct {
	out io.Writer
	err error
}

func (s *story) printf(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.out, format, args...)
	}
}

// introduce says what is about to happen.
func (s *story) introduce(o Options, t terms) {
	s.printf(`%d agents work on one session, a list that is kept in Redis under one key. Each makes
%s: it reads the list, thinks for %s, and writes the list back with an entry of
its own at the end.

Halfway, %s is paused between its read and its write, for %s. That is longer than
fence-proxy lets anyone hold a session here (max_hold, %s). The others go on meanwhile;
then it wakes up, notices nothing, and writes what it has.

`,
		o.Agents, counted(o.Updates, "update"), rule.Text(o.Think),
		agentName(o.Agents-1), rule.Text(t.pause), rule.Text(t.maxHold))
}

// announce says which race begins.
func (s *story) announce(format string, args ...any) { s.printf(format+"\n", args...) }

// observe shows what the observer has found.
func (s *story) observe(r Result) {
	s.printf("\n%d of %s were lost, and \"fence-proxy observe\", which stood in between, reports:\n\n",
		r.Straight.Lost, counted(r.Straight.Acknowledged, "update"))
	var report bytes.Buffer
	_ = r.Observed.Write(&report)
	for line := range bytes.Lines(report.Bytes()) {
		if len(line) > 1 {
			s.printf("    ")
		}
		s.printf("%s", line)
	}
	s.printf("\nThese rules guard the next race, with the short times of this demo.\n\n")
}

// conclude shows the figures and what they mean.
func (s *story) conclude(r Result) {
	s.printf("\n")
	s.table(r)
	s.printf("\n%s\n%s\n", straightly(r.Straight), fenced(r.Through))
	s.printf(`
To try it on your own agents, run "fence-proxy --upstream redis://HOST:6379" and have them connect to
127.0.0.1:6380. It guards the keys under agent:ctx: until a configuration (--config FILE) names others.
`)
}

func (s *story) table(r Result) {
	if s.err != nil {
		return
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "\tupdates\tin the\t\tstale writes\twaited in vain\tlongest\n")
	fmt.Fprint(t, "\tacknowledged\tfinal value\tlost\trefused\t(LOCKED)\twait\ttime\n")
	row := func(name string, f Figures) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", name,
			f.Acknowledged, f.Kept, f.Lost, f.Refused, f.Locked, short(f.LongestWait), short(f.Elapsed))
	}
	row("straight at Redis", r.Straight)
	row("through fence-proxy", r.Through)
	s.err = t.Flush()
}

// straightly puts the figures of the race straight at Redis into words.
func straightly(f Figures) string {
	all := counted(f.Acknowledged, "update")
	switch f.Lost {
	case 0:
		return fmt.Sprintf("Straight at Redis, all of %s were kept this time.", all)
	case 1:
		return fmt.Sprintf("Straight at Redis, 1 of %s was lost, though it was answered with OK.", all)
	default:
		return fmt.Sprintf("Straight at Redis, %d of %s were lost, though each was answered with OK.", f.Lost, all)
	}
}

// fenced puts the figures of the race through fence-proxy into words.
func fenced(f Figures) string {
	text := "Through fence-proxy, none was lost"
	if f.Lost > 0 {
		text = fmt.Sprintf("Through fence-proxy, %d of %s were lost", f.Lost, counted(f.Acknowledged, "update"))
	}
	switch f.Refused {
	case 0:
		return text + ", and no stale write was seen."
	case 1:
		return text + ": the stale write was refused (FENCED), and its agent read again."
	default:
		return fmt.Sprintf("%s: %d stale writes were refused (FENCED), and their agents read again.", text, f.Refused)
	}
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// short writes a measured time with no more digits than one wants to read.
func short(d time.Duration) string {
	unit := time.Millisecond
	if d >= time.Second {
		unit = 10 * time.Millisecond
	}
	return d.Round(unit).String()
}
