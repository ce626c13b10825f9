package doctor

import (
	"context"
	"time"
)

// check is one thing that is looked at.
type check struct {
	name string
	// node looks at one Redis: each is looked at, unless first says that one stands for all.
	node  func(context.Context, *exam)
	first bool
}

// checks are all, in the order in which they are told. The first one decides whether there is anything to ask.
var checks = []check{
	{name: "server", node: server},
	{name: "role", node: role},
	{name: "clock", node: clock},
	{name: "memory", node: memory},
	{name: "persistence", node: persistence},
	{name: "replicas", node: replicas},
	{name: "limits", node: limits},
	{name: "tls", node: certificates},
	{name: "rights", node: rights, first: true},
	{name: "kill", node: kill},
	{name: "bypass", node: bypass},
	{name: "records", node: records},
	{name: "rules", node: rules},
	{name: "clients", node: clients},
	{name: "provider", node: lockProvider, first: true},
}

// Examine looks at everything, check by check. It returns when all is told, or when ctx ends.
func Examine(ctx context.Context, p *Patient) []Finding {
	var found []Finding
	known := make([]*facts, len(p.Nodes))
	there := make([]bool, len(p.Nodes))
	for i := range p.Nodes {
		known[i] = &facts{config: map[string]fact{}}
		there[i] = p.reached(ctx, i, &found)
	}
	for _, c := range checks {
		for i, node := range p.Nodes {
			if !there[i] || c.first && i > 0 {
				continue
			}
			within, cancel := context.WithTimeout(ctx, patience)
			c.node(within, &exam{Patient: p, Node: node, check: c.name, shown: p.shown(i), facts: known[i], found: &found})
			cancel()
		}
	}
	apart(ctx, p, there, &found)
	return found
}

// reached reports whether a node answers, and tells if it does not.
func (p *Patient) reached(ctx context.Context, i int, found *[]Finding) bool {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := p.Nodes[i].Redis.Ping(within).Err()
	if err == nil || refused(err) && !unwelcome(err) {
		return true
	}
	e := &exam{check: "connection", shown: p.Nodes[i].Addr, found: found}
	if refused(err) {
		e.fail("give upstream.url the user and password that Redis asks for", "not let in: %s", reason(err))
	} else {
		e.fail("see whether Redis runs there, and whether network and TLS settings let the proxy through", "can't be reached: %s", reason(err))
	}
	return false
}

// shown is a node's address, where it must be told from others.
func (p *Patient) shown(i int) string {
	if len(p.Nodes) == 1 {
		return ""
	}
	return p.Nodes[i].Addr
}

// span is a duration for people.
func span(d time.Duration) string { return d.Round(time.Millisecond).String() }
