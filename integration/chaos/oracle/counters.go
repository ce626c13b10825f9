package oracle

import (
	"fmt"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

// counters: no two counts have the same answer, and a counter is what was acknowledged, or more by what is unknown.
func (c *court) counters() *Violation {
	for _, session := range c.names() {
		for _, a := range c.ages(session) {
			if v := c.counter(session, a); v != nil {
				v.Session = session
				return v
			}
		}
	}
	return nil
}

func (c *court) counter(session string, a age) *Violation {
	const promise = "each count is applied once"
	answers := map[int64]*history.Op{}
	var least, most int64
	for _, o := range c.sessions[session] {
		if o.Kind != history.Count || o.Fate == history.Refused || a.apart(o) {
			continue
		}
		most++
		if o.Fate != history.Done || !a.within(o) {
			continue
		}
		least++
		if o.Number == 0 {
			continue
		}
		if other := answers[o.Number]; other != nil {
			return &Violation{Promise: promise, Text: "two counts have the same answer", Ops: []*history.Op{other, o}}
		}
		answers[o.Number] = o
	}
	if a.had != nil && (a.had.Count < least || a.had.Count > most) {
		return &Violation{Promise: promise, Text: fmt.Sprintf("the counter is %d, and was counted up between %d and %d times", a.had.Count, least, most)}
	}
	return nil
}
