package oracle

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

const (
	// A long history is looked at in windows that overlap, since porcupine's memory grows with the square of a
	// history's length.
	window, stride = 1200, 800
	// patience is how long porcupine may look for an order of one window.
	patience = time.Minute
)

// state is a session's, as the agents can know it.
type state struct {
	value string
	any   bool // value may be any: a window begins
	grant uint64
	over  bool // nothing is accepted under grant any more
}

// input is an op. One that was under way when a window began may have taken effect before.
type input struct {
	*history.Op
	before bool
}

func opOf(o porcupine.Operation) *history.Op {
	in, _ := o.Input.(input)
	return in.Op
}

// model is a value with acknowledged updates, beside a lock whose grants grow.
func model(first state) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{first} },
		Step: func(s, in, _ any) (next []any) {
			now, _ := s.(state)
			op, _ := in.(input)
			if legal, then := step(now, op.Op); legal {
				next = append(next, then)
			}
			if op.before {
				next = append(next, now)
			}
			return next
		},
		Equal: func(a, b any) bool { return a == b },
		DescribeOperation: func(in, _ any) string {
			op, _ := in.(input)
			return op.String()
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

// step carries out what has taken effect.
func step(s state, o *history.Op) (bool, state) {
	is := func(value string) bool { return s.any || s.value == value }
	current := s.grant == o.Grant && !s.over
	next := s
	switch o.Kind {
	case history.Read:
		next.value, next.any = o.Got, false
		return is(o.Got), next
	case history.Update:
		next.value, next.any, next.over = o.Value, false, true
		return is(o.Was), next
	case history.Blind:
		next.value, next.any, next.over = o.Value, false, true
		return true, next
	case history.Acquire:
		next.grant, next.over = o.Grant, false
		return o.Grant > s.grant, next
	case history.GrantRead:
		next.value, next.any = o.Got, false
		return current && is(o.Got), next
	case history.GrantUpdate:
		next.value, next.any = o.Value, false
		return current && is(o.Was), next
	case history.Release:
		next.over = next.over || o.Number == 1
		return o.Number == 0 || current, next
	case history.Erase:
		next.value, next.any, next.over = "", false, true
		return true, next
	}
	return true, s
}

// linear looks for an order that explains each session.
func (c *court) linear() *Violation {
	for _, session := range c.names() {
		ops := c.operations(session)
		for at := 0; at == 0 || at+window-stride < len(ops); at += stride {
			part, first := excerpt(ops, at)
			switch check(part, first) {
			case porcupine.Ok:
			case porcupine.Unknown:
				return &Violation{Promise: "an order is found in time", Session: session, Text: fmt.Sprintf("none within %v for %d ops", patience, len(part))}
			default:
				return c.shorten(session, part, first)
			}
		}
	}
	return nil
}

// excerpt is a window of a history, and in which state it may begin: with what was not over before it, and without what is open
// at its end, unless its value was seen.
func excerpt(ops []porcupine.Operation, at int) ([]porcupine.Operation, state) {
	var first state
	later := ops
	if at > 0 {
		later, first = after(ops, ops[at].Call)
	}
	if at+window < len(ops) {
		return upTo(later, ops[at+window].Call), first
	}
	return later, first
}

// after is a history without what was over at a time, and the state in which it may begin.
func after(ops []porcupine.Operation, start int64) (later []porcupine.Operation, first state) {
	first.any = true
	for _, o := range ops {
		op := opOf(o)
		switch {
		case o.Return >= start:
			o.Input = input{op, o.Call < start}
			later = append(later, o)
		case op.Kind == history.Acquire:
			first.grant = max(first.grant, op.Grant)
		}
	}
	return later, first
}

// upTo is a history without what is open at a time, unless its value was seen.
func upTo(ops []porcupine.Operation, end int64) []porcupine.Operation {
	there, seen := make([]bool, len(ops)), map[string]bool{}
	take := func(i int, o *history.Op) { there[i], seen[o.Got], seen[o.Was] = true, true, true }
	for i := range ops {
		if ops[i].Return < end {
			take(i, opOf(ops[i]))
		}
	}
	for i := len(ops) - 1; i >= 0; i-- { // what it goes back to was called before
		if o := opOf(ops[i]); !there[i] && o.Writes() && seen[o.Value] {
			take(i, o)
		}
	}
	var part []porcupine.Operation
	for i := range ops {
		if there[i] {
			part = append(part, ops[i])
		}
	}
	return part
}

func check(ops []porcupine.Operation, first state) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(first), ops, patience)
}

// operations are what of a session has taken effect, by call.
func (c *court) operations(session string) (ops []porcupine.Operation) {
	agents := map[string]int{}
	for _, o := range c.sessions[session] {
		if o.Kind == history.Push || o.Kind == history.Count || !c.effective(o) {
			continue
		}
		if c.Stale {
			if o.Kind == history.GrantUpdate {
				update := *o
				update.Kind = history.Update
				o = &update
			}
			if !o.Writes() && o.Kind != history.Erase {
				continue
			}
		}
		if _, ok := agents[o.Agent]; !ok {
			agents[o.Agent] = len(agents)
		}
		until := o.Return
		if seen, ok := c.seen[o.Value]; o.Value != "" && ok && (seen < until || o.Fate != history.Done) { // it has taken effect by then
			until = seen
		}
		ops = append(ops, porcupine.Operation{ClientId: agents[o.Agent], Input: input{Op: o}, Call: o.Call, Return: until})
	}
	if f, ok := c.Final[session]; ok {
		last := &history.Op{Agent: "audit", Kind: history.Read, Session: session, Got: f.Value, Call: c.Audited, Return: c.Audited, Fate: history.Done}
		ops = append(ops, porcupine.Operation{ClientId: len(agents), Input: input{Op: last}, Call: c.Audited, Return: c.Audited})
	}
	return ops
}

// shorten makes the shortest history of one that has no order: it ends as soon as there is none, and begins as late as there
// still is none, whatever came before.
func (c *court) shorten(session string, ops []porcupine.Operation, first state) *Violation {
	ends := make([]int64, len(ops))
	for i := range ops {
		ends[i] = ops[i].Return + 1
	}
	slices.Sort(ends)
	illegal := func(part []porcupine.Operation, first state) bool { return check(part, first) == porcupine.Illegal }
	n := sort.Search(len(ends), func(i int) bool { return illegal(upTo(ops, ends[i]), first) })
	part := ops
	if n < len(ends) {
		part = upTo(ops, ends[n])
	}
	whole, known := part, first.grant
	from := sort.Search(len(whole), func(i int) bool {
		later, anything := after(whole, whole[i].Call)
		anything.grant = max(anything.grant, known)
		return !illegal(later, anything)
	})
	if from > 0 {
		part, first = after(whole, whole[from-1].Call)
		first.grant = max(first.grant, known)
	}
	v := &Violation{Promise: "an order explains what everybody has heard", Session: session, Text: "there is none of these", Picture: c.picture(part, first)}
	for _, o := range part {
		v.Ops = append(v.Ops, opOf(o))
	}
	return v
}

// picture draws a history with what can be ordered of it.
func (c *court) picture(ops []porcupine.Operation, first state) string {
	if c.Pictures == "" || os.MkdirAll(c.Pictures, 0o755) != nil {
		return ""
	}
	m := model(first)
	_, info := porcupine.CheckOperationsVerbose(m, ops, patience)
	file, err := os.CreateTemp(c.Pictures, "history-*.html")
	if err != nil {
		return ""
	}
	defer file.Close()
	if porcupine.Visualize(m, info, file) != nil {
		return ""
	}
	return file.Name()
}
