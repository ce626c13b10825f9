package fuzz

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Pair is two servers, and the proxy in front of one of them.
type Pair struct {
	straight, behind *server
	besides          []*server // what else is behind the proxy
	proxy            string    // its address
	guarded          bool
	listening        bool // the scripts' replies can't be counted
	tally            Tally
}

// Tally is what was compared.
type Tally struct {
	Scripts, Commands, Errors, Transactions int
	Deliveries                              [3]int
	Seen                                    map[string]int // commands by name, those that Redis did not refuse
	Exceptions                              []int
}

func newTally() Tally { return Tally{Seen: map[string]int{}, Exceptions: make([]int, len(exceptions))} }

// Difference is what a script has found.
type Difference struct {
	Script     int // which of those that ran together
	What       string
	Transcript string // up to there
}

// trial plays scripts, at the same time, and compares. nil means no difference.
func (p *Pair) trial(scripts []*Script, patience time.Duration) (*Difference, Tally) {
	tally := newTally()
	for _, s := range append([]*server{p.straight, p.behind}, p.besides...) {
		if err := s.empty(); err != nil {
			return &Difference{What: "empty the server: " + err.Error()}, tally
		}
	}
	behind := p.playAll(p.proxy, scripts, patience)
	left := make([]*permitted, len(scripts))
	sent := make([]*Script, len(scripts))
	for i, s := range scripts {
		if behind[i].err != nil && !p.listening {
			return p.broken(i, s, behind[i], "through the proxy"), tally
		}
		left[i] = &permitted{script: *s, replies: behind[i].replies}
		if p.guarded {
			var err error
			if left[i], err = permit(s, behind[i].replies, tally.Exceptions); err != nil {
				return &Difference{i, err.Error(), transcript(s.Steps, nil, behind[i].replies)}, tally
			}
		}
		sent[i] = &left[i].script
	}
	straight := p.playAll(p.straight.addr, sent, patience)
	for i := range scripts {
		d := p.compare(left[i], straight[i], behind[i], &tally)
		if d == nil {
			continue
		}
		d.Script = i
		return d, tally
	}
	if what := p.compareData(); what != "" {
		d := &Difference{What: what}
		for i := range scripts {
			d.Transcript += transcript(left[i].script.Steps, straight[i].replies, left[i].replies)
		}
		return d, tally
	}
	return nil, tally
}

// played is what came back.
type played struct {
	replies [][]byte
	after   [][]byte // QUIT
	err     error
}

// playAll plays scripts over a connection each, and ends none before all have their replies.
func (p *Pair) playAll(addr string, scripts []*Script, patience time.Duration) []played {
	all := make([]played, len(scripts))
	players := make([]*player, len(scripts))
	each := func(do func(i int, r *played)) {
		var wg sync.WaitGroup
		for i := range scripts {
			wg.Go(func() {
				if all[i].err == nil {
					do(i, &all[i])
				}
			})
		}
		wg.Wait()
	}
	for i := range scripts {
		players[i], all[i].err = play(addr, patience)
	}
	if p.listening {
		each(func(i int, r *played) { r.replies, r.err = players[i].listen(scripts[i]) })
	} else {
		each(func(i int, r *played) { r.replies, r.err = players[i].perform(scripts[i]) })
		each(func(i int, r *played) { r.after, r.err = players[i].finish(scripts[i]) })
	}
	for _, q := range players {
		if q != nil {
			q.close()
		}
	}
	return all
}

func (p *Pair) broken(i int, s *Script, r played, where string) *Difference {
	return &Difference{i, fmt.Sprintf("%s: %v (it ends with %.200q)", where, r.err, s.Tail), transcript(s.Steps, nil, r.replies)}
}

// compare compares what one script got.
func (p *Pair) compare(left *permitted, straight, behind played, tally *Tally) *Difference {
	s := &left.script
	tally.Scripts++
	tally.Commands += len(s.Steps)
	tally.Deliveries[s.Delivery]++
	if p.listening {
		return p.compareStreams(s, straight, behind)
	}
	if straight.err != nil {
		return &Difference{0, "straight: " + straight.err.Error(), transcript(s.Steps, straight.replies, left.replies)}
	}
	var q queue
	for i := range s.Steps {
		step, want, got := &s.Steps[i], straight.replies[i], left.replies[i]
		switch {
		case got == nil:
		case p.guarded && step.Command != nil && differing[step.Command.Name] != "" && want[0] != '-' && got[0] != '-':
		case p.guarded && q.open && step.Command != nil && step.Command.Name == "exec" && countsRecords(&q):
		case !same(&q, step, want, got):
			return &Difference{
				0, fmt.Sprintf("%v\n  straight: %s\n  proxy:    %s", step, quoted(want), quoted(got)),
				transcript(s.Steps[:i+1], straight.replies, left.replies),
			}
		}
		tally.note(&q, step, want)
		q.take(step, want)
	}
	if !slices.EqualFunc(straight.after, behind.after, bytes.Equal) {
		return &Difference{0, fmt.Sprintf("at the end, which is %.200q\n  straight: %q\n  proxy:    %q", s.Tail, straight.after, behind.after), transcript(s.Steps, straight.replies, left.replies)}
	}
	return nil
}

// countsRecords reports whether a transaction has a command whose reply differs.
func countsRecords(q *queue) bool {
	return slices.ContainsFunc(q.queued, func(s *Step) bool { return s.Command != nil && differing[s.Command.Name] != "" })
}

// compareStreams compares all that a listening script heard.
func (p *Pair) compareStreams(s *Script, straight, behind played) *Difference {
	for i := range max(len(straight.replies), len(behind.replies)) {
		want, got := at(straight.replies, i), at(behind.replies, i)
		if bytes.Equal(want, got) || i == 0 && len(want) > 0 && len(got) > 0 && same(&queue{}, &s.Steps[0], want, got) { // HELLO tells the connection's id
			continue
		}
		return &Difference{
			0, fmt.Sprintf("frame %d\n  straight: %s (%v)\n  proxy:    %s (%v)", i, quoted(want), straight.err, quoted(got), behind.err),
			transcript(s.Steps, nil, nil),
		}
	}
	if straight.err != nil || behind.err != nil {
		return &Difference{0, fmt.Sprintf("straight: %v, proxy: %v", straight.err, behind.err), transcript(s.Steps, nil, nil)}
	}
	return nil
}

// compareData compares what is left in the servers; "" means the same.
func (p *Pair) compareData() string {
	want, errWant := p.straight.data()
	got, errGot := p.behind.data()
	if err := errors.Join(errWant, errGot); err != nil {
		return "look at the data: " + err.Error()
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[key]; !ok {
			fmt.Fprintf(&b, "%s is missing behind the proxy\n", key)
		} else if !want[key].like(g) {
			fmt.Fprintf(&b, "%s\n  straight: %+v\n  proxy:    %+v\n", key, want[key], g)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			fmt.Fprintf(&b, "%s is there behind the proxy only\n", key)
		}
	}
	if b.Len() > 0 {
		return "the data at the end:\n" + b.String()
	}
	return ""
}

// note counts a reply.
func (t *Tally) note(q *queue, s *Step, reply []byte) {
	switch {
	case reply[0] == '-':
		t.Errors++
	case q.open && s.Command != nil && s.Command.Name == "exec":
		t.Transactions++
		t.seen(s)
		for i, e := range parse(reply).elems {
			if i < len(q.queued) && !e.isError() {
				t.seen(q.queued[i])
			}
		}
	case !bytes.Equal(reply, []byte("+QUEUED\r\n")):
		t.seen(s)
	}
}

func (t *Tally) seen(s *Step) {
	if s.Command != nil {
		t.Seen[s.Command.Name]++
	}
}

// add adds another's counts.
func (t *Tally) add(o *Tally) {
	t.Scripts += o.Scripts
	t.Commands += o.Commands
	t.Errors += o.Errors
	t.Transactions += o.Transactions
	for i, n := range o.Deliveries {
		t.Deliveries[i] += n
	}
	for name, n := range o.Seen {
		t.Seen[name] += n
	}
	for i, n := range o.Exceptions {
		t.Exceptions[i] += n
	}
}

// transcript is a script as people read it.
func transcript(steps []Step, straight, behind [][]byte) string {
	var b strings.Builder
	for i := range steps {
		fmt.Fprintf(&b, "%v\n", &steps[i])
		want, got := at(straight, i), at(behind, i)
		switch {
		case want == nil && got == nil:
		case want == nil:
			fmt.Fprintf(&b, "        proxy:    %s\n", quoted(got))
		case got == nil || bytes.Equal(want, got):
			fmt.Fprintf(&b, "        %s\n", quoted(want))
		default:
			fmt.Fprintf(&b, "        straight: %s\n        proxy:    %s\n", quoted(want), quoted(got))
		}
	}
	return b.String()
}

func at(frames [][]byte, i int) []byte {
	if i < len(frames) {
		return frames[i]
	}
	return nil
}

// quoted is a reply, shortened.
func quoted(reply []byte) string {
	if len(reply) > 400 {
		return fmt.Sprintf("%q… (%d bytes)", reply[:400], len(reply))
	}
	return fmt.Sprintf("%q", reply)
}
