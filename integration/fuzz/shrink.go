package fuzz

import (
	"strings"
	"time"
)

const (
	// tries bounds the trials of one shrinking.
	tries = 400
	// brief is how long a reply may take while shrinking, when the failure is known.
	brief = time.Second
	// refusal is in the differences that are no Redis's.
	refusal = "FENCEDENIED"
)

// shrink takes away from one of the scripts what the difference does not need: halves first, then
// ever smaller parts, down to one command. It returns the last script that still fails, and how.
func (p *Pair) shrink(scripts []*Script, d *Difference) (*Script, *Difference) {
	left := tries
	fails := func(s *Script, alone bool) *Difference {
		if left--; left < 0 {
			return nil
		}
		together := []*Script{s}
		if !alone {
			together = append([]*Script(nil), scripts...)
			together[d.Script] = s
		}
		found, _ := p.trial(together, brief)
		if found != nil && strings.Contains(found.What, refusal) != strings.Contains(d.What, refusal) {
			return nil // another one: without its MULTI, say
		}
		return found
	}
	script := scripts[d.Script]
	alone := len(scripts) > 1 && fails(script, true) != nil || len(scripts) == 1
	units := script.units()
	for size := len(units) / 2; size > 0; {
		smaller := false
		for from := 0; from < len(units) && left > 0; {
			rest := append(append([][]Step(nil), units[:from]...), units[min(from+size, len(units)):]...)
			if found := fails(script.of(rest), alone); found != nil {
				units, smaller = rest, true
				d = &Difference{d.Script, found.What, found.Transcript}
				continue
			}
			from += size
		}
		if size > 1 || !smaller {
			size /= 2
		}
	}
	return script.of(units), d
}
