package fuzz

import (
	"bytes"
	"fmt"
	"strings"
)

// permitted is what is left of a script when what the guard has refused is taken away. This goes to
// the straight server.
type permitted struct {
	script  Script
	replies [][]byte // of the proxy, for each step; nil for one that it did not see
}

// permit reads the proxy's replies. A transaction that was refused, or in which a command was refused goes as a whole,
// and ends the client's WATCH as its EXEC would have. counts are those of the exceptions met.
func permit(s *Script, replies [][]byte, counts []int) (*permitted, error) {
	p := &permitted{script: Script{Delivery: s.Delivery, Tail: s.Tail, cuts: s.cuts}}
	var q queue
	begin, denied := 0, false // of the open transaction
	for i := range s.Steps {
		step, reply := &s.Steps[i], replies[i]
		was := q.open
		q.take(step, reply)
		switch {
		case !was && q.open:
			begin, denied = len(p.replies), false
		case bytes.HasPrefix(reply, []byte("-FENCEDENIED ")):
			d := denial{step, strings.TrimSpace(string(reply))}
			at := fitting(d)
			if at < 0 {
				return p, fmt.Errorf("%v is refused, and no exception allows that: %s", step, d.message)
			}
			counts[at]++
			denied = true
			if !was {
				continue
			}
		case bytes.HasPrefix(reply, []byte("-FENCED ")):
			d := denial{step, strings.TrimSpace(string(reply))}
			at := fitting(d)
			if at < 0 {
				return p, fmt.Errorf("%v is stale, and nobody else was there: %s", step, d.message)
			}
			counts[at]++
			if was { // an EXEC, of which nothing was applied
				p.cut(begin)
				p.add(Step{Args: []string{"UNWATCH"}}, nil)
			}
			continue
		case was && !q.open && denied:
			if step.Command.Name == "exec" && !bytes.HasPrefix(reply, []byte("-EXECABORT ")) {
				return p, fmt.Errorf("a command of the transaction was refused, and EXEC says %q", reply)
			}
			p.cut(begin)
			if step.Command.Name != "reset" {
				p.add(Step{Args: []string{"UNWATCH"}}, nil)
				continue
			}
		}
		p.add(*step, reply)
	}
	if q.open && denied {
		p.cut(begin)
	}
	return p, nil
}

func (p *permitted) add(s Step, reply []byte) {
	p.script.Steps = append(p.script.Steps, s)
	p.replies = append(p.replies, reply)
}

func (p *permitted) cut(at int) {
	p.script.Steps, p.replies = p.script.Steps[:at], p.replies[:at]
}
