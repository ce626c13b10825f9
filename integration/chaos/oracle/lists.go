package oracle

import (
	"fmt"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

// lists: each push that was acknowledged is in its list once, where its answer said, and behind those that had been
// acknowledged before it was sent; each that was not, at most once.
func (c *court) lists() *Violation {
	for _, session := range c.names() {
		for _, a := range c.ages(session) {
			if a.had == nil {
				continue
			}
			if v := c.list(session, a); v != nil {
				v.Session = session
				return v
			}
		}
	}
	return nil
}

func (c *court) list(session string, a age) *Violation {
	at := map[string]int{}
	for i, element := range a.had.List {
		o := c.writers[element]
		if o == nil || !o.Appends() || o.Session != session {
			return &Violation{Promise: "each push is applied once", Text: fmt.Sprintf("nobody has pushed %q", element)}
		}
		if before := at[element]; before > 0 {
			return &Violation{
				Promise: "each push is applied once", Ops: []*history.Op{o},
				Text: fmt.Sprintf("%s is in the list at %d and at %d", element, before, i+1),
			}
		}
		at[element] = i + 1
		if a.apart(o) {
			return &Violation{Promise: "what is erased does not come back", Text: element + " was pushed in another age", Ops: []*history.Op{o}}
		}
	}
	for _, o := range c.sessions[session] {
		if !o.Appends() || o.Fate != history.Done || !a.within(o) {
			continue
		}
		switch place := at[o.Value]; {
		case place == 0:
			return &Violation{Promise: "what is acknowledged is there", Text: o.Value + " was acknowledged, and is not in the list", Ops: []*history.Op{o}}
		case o.Number > 0 && int64(place) != o.Number:
			return &Violation{
				Promise: "pushes keep their order", Ops: []*history.Op{o},
				Text: fmt.Sprintf("%s was told that it is at %d, and it is at %d", o.Value, o.Number, place),
			}
		}
	}
	var earliest *history.Op // of those behind, the first that was acknowledged
	for i := len(a.had.List) - 1; i >= 0; i-- {
		o := c.writers[a.had.List[i]]
		if earliest != nil && earliest.Return < o.Call {
			return &Violation{
				Promise: "pushes keep their order", Ops: []*history.Op{earliest, o},
				Text: fmt.Sprintf("%s is behind %s, which was sent later", earliest.Value, o.Value),
			}
		}
		if o.Fate == history.Done && (earliest == nil || o.Return < earliest.Return) {
			earliest = o
		}
	}
	return nil
}
