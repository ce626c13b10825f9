package oracle

import (
	"fmt"
	"slices"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

// grants: each is above all that had been given before it was asked for.
func (c *court) grants() *Violation {
	for _, session := range c.names() {
		var acquired []*history.Op // by return
		for _, o := range c.sessions[session] {
			if o.Kind == history.Acquire && o.Fate == history.Done {
				acquired = append(acquired, o)
			}
		}
		byReturn := slices.SortedFunc(slices.Values(acquired), func(a, b *history.Op) int { return int(a.Return - b.Return) })
		var newest *history.Op
		next := 0
		for _, o := range acquired { // by call
			for ; next < len(byReturn) && byReturn[next].Return < o.Call; next++ {
				if newest == nil || byReturn[next].Grant > newest.Grant {
					newest = byReturn[next]
				}
			}
			if newest != nil && o.Grant <= newest.Grant {
				return &Violation{
					Promise: "grants only grow", Session: session, Ops: []*history.Op{newest, o},
					Text: fmt.Sprintf("grant %d was given after %d", o.Grant, newest.Grant),
				}
			}
		}
	}
	return nil
}

// tick is how exactly Redis ends a key's life.
const tick = 5_000_000

// exclusion: while a grant stands nobody else writes the session, or is granted it. Safety does not depend on that, but it is
// what a lock is for.
func (c *court) exclusion() *Violation {
	if c.Early {
		return nil
	}
	for _, session := range c.names() {
		ops := c.sessions[session]
		for i, hold := range ops {
			if hold.Kind != history.Acquire || hold.Fate != history.Done {
				continue
			}
			until := c.stands(ops[i:], hold)
			for _, o := range ops[i+1:] {
				if o.Call >= until {
					break
				}
				if o.Fate != history.Done || o.Call <= hold.Return || o.Return >= until || o.Grant == hold.Grant {
					continue
				}
				if o.Writes() || o.Appends() || o.Kind == history.Count || o.Kind == history.Acquire {
					return &Violation{
						Promise: "a hold is one's alone", Session: session, Ops: []*history.Op{hold, o},
						Text: fmt.Sprintf("%s was carried out while grant %d stood", o.Name(), hold.Grant),
					}
				}
			}
		}
	}
	return nil
}

// stands is how long a hold stands for certain.
func (c *court) stands(ops []*history.Op, hold *history.Op) int64 {
	until := hold.Call + hold.TTL - tick
	for _, o := range ops {
		if o.Kind == history.Erase || o.Kind == history.Release && o.Grant == hold.Grant {
			until = min(until, o.Call)
		}
	}
	for _, d := range c.Disturbed {
		if d[1] >= hold.Call && d[0] < until {
			until = d[0]
		}
	}
	return until
}
