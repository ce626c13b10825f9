package fuzz

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// caller makes calls of commands.
type caller struct {
	rng  *rand.Rand
	keys keys

	group   string // of the command, for its keys
	args    []string
	numkeys int // given, and the keys not yet; 0 for none
	serial  int

	subscribed bool // it may have channels
	open       bool // between MULTI and EXEC
}

// take notes what a call does to the transaction.
func (m *caller) take(s *Step) {
	switch s.Command.Name {
	case "multi":
		m.open = true
	case "exec":
		m.open = false
	case "discard", "reset":
		m.open = m.open && len(s.Args) > 1
	}
}

// call makes a call of the command: mostly one that its specs allow, sometimes one of just any words.
func (m *caller) call(c *Command) []string {
	m.args, m.group, m.numkeys = nil, c.Group, 0
	m.serial++
	for name := range strings.SplitSeq(c.Name, "|") {
		m.args = append(m.args, anyCase(m.rng, name))
	}
	named := len(m.args)
	if m.rng.IntN(12) > 0 {
		m.all(c.arguments)
	} else {
		for range m.rng.IntN(max(c.Arity, -c.Arity) + 2) {
			m.args = append(m.args, m.anything())
		}
	}
	if len(m.args) > named && m.rng.IntN(10) == 0 {
		m.spoil(named)
	}
	args := m.args
	tame(m.rng, c, args, m.serial)
	return args
}

// all makes the arguments of a list of specs. What is given several times without a token, is given
// equally often: the keys and IDs of XREAD.
func (m *caller) all(specs []argument) {
	times := 0
	for _, a := range specs {
		if a.optional && m.rng.IntN(5) < 3 && !(a.kind == "key" && m.numkeys > 0) {
			continue
		}
		n := 1
		switch {
		case a.multiple && a.kind == "key" && m.numkeys > 0:
			n, m.numkeys = m.numkeys, 0
		case a.multiple && a.token == "" && times > 0 && m.rng.IntN(10) > 0:
			n = times
		case a.multiple:
			n = 1 + m.rng.IntN(3)
		}
		if a.multiple && a.token == "" {
			times = n
		}
		for i := range n {
			if a.token != "" && a.kind != "pure-token" && (i == 0 || a.everyToken) {
				m.args = append(m.args, token(m.rng, a.token))
			}
			m.one(a)
		}
	}
}

// one makes one value of a spec.
func (m *caller) one(a argument) {
	switch {
	case a.kind == "oneof" && len(a.within) > 0:
		// Its token, if it has one, was given.
		chosen := a.within[m.rng.IntN(len(a.within))]
		chosen.optional = false
		m.all([]argument{chosen})
	case a.kind == "block":
		m.all(a.within)
	case a.kind == "pure-token":
		m.args = append(m.args, token(m.rng, a.token))
	case a.kind == "key":
		m.args = append(m.args, m.keys.pick(m.rng, m.group))
	case a.name == "numkeys":
		m.numkeys = 1 + m.rng.IntN(3)
		given := m.numkeys
		if m.rng.IntN(20) == 0 {
			given += m.rng.IntN(4) - 2
		}
		m.args = append(m.args, strconv.Itoa(given))
	default:
		m.args = append(m.args, word(m.rng, a))
	}
}

// anything is any word at all.
func (m *caller) anything() string {
	switch m.rng.IntN(6) {
	case 0:
		return one(m.rng, integers)
	case 1:
		return one(m.rng, doubles)
	case 2:
		return one(m.rng, strange)
	case 3:
		return one(m.rng, values)
	default:
		return m.keys.pick(m.rng, "")
	}
}

// spoil does something to the arguments, which begin at from.
func (m *caller) spoil(from int) {
	at := from + m.rng.IntN(len(m.args)-from)
	switch m.rng.IntN(5) {
	case 0:
		m.args = slices.Delete(m.args, at, at+1)
	case 1:
		m.args = slices.Insert(m.args, at, m.args[at])
	case 2:
		m.args[at] = m.anything()
	case 3:
		m.args = append(m.args, m.anything())
	case 4:
		m.args = m.args[:at]
	}
}
