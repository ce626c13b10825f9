package oracle

import (
	"fmt"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

// forks: of two updates that go back to the same value, one has lost the other. A value is written once, but for that of a
// session that has none.
func (c *court) forks() *Violation {
	for _, session := range c.names() {
		from := map[string]*history.Op{}
		erased := len(c.erasures(session)) > 0
		for _, o := range c.sessions[session] {
			if o.Kind != history.Update && o.Kind != history.GrantUpdate || !c.effective(o) || o.Was == "" && erased {
				continue
			}
			if first := from[o.Was]; first != nil {
				v := &Violation{
					Promise: "no update is lost", Session: session,
					Text: fmt.Sprintf("%s and %s have both written what goes back to %q: one has undone the other", first.Name(), o.Name(), o.Was),
				}
				for _, other := range c.sessions[session] {
					if other == first || other == o || other.Value == o.Was && o.Was != "" ||
						other.Kind == history.Read && other.Got == o.Was && (other.Agent == first.Agent || other.Agent == o.Agent) {
						v.Ops = append(v.Ops, other)
					}
				}
				return v
			}
			from[o.Was] = o
		}
	}
	return nil
}
