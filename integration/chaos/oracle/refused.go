package oracle

import "github.com/fence-proxy/fence-proxy/integration/chaos/history"

// refusals: what was refused was not written.
func (c *court) refusals() *Violation {
	for value := range c.seen {
		o := c.writers[value]
		switch {
		case o == nil:
			return &Violation{Promise: "every value was written by somebody", Session: "?", Text: "nobody has written " + value}
		case o.Fate == history.Refused:
			v := &Violation{Promise: "what is refused is not written", Session: o.Session, Text: o.Name() + " was refused, and has written", Ops: []*history.Op{o}}
			for _, r := range c.sessions[o.Session] {
				if r.Got == value && (r.Kind == history.Read || r.Kind == history.GrantRead) {
					v.Ops = append(v.Ops, r)
					break
				}
			}
			return v
		}
	}
	return nil
}
