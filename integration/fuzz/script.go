package fuzz

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/command"
)

// Script is what one client sends over one connection.
type Script struct {
	Steps    []Step
	Delivery Delivery
	Tail     string // bytes after the steps that are no command, in place of QUIT
	cuts     uint64 // seed of where a cut delivery is cut
}

// Step is one command of a script.
type Step struct {
	Command *Command // nil when the server does not know it
	Args    []string
	Inline  bool
	With    bool // it belongs to the step before: neither makes sense without the other
}

// Delivery is how a script's bytes are sent.
type Delivery int

// The deliveries: one command after the other's reply; all at once; all at once, in small pieces.
const (
	Single Delivery = iota
	Pipelined
	Cut
)

func (d Delivery) String() string { return [...]string{"single", "pipelined", "cut"}[d] }

// bytes are the step as it is sent.
func (s *Step) bytes() string {
	if !s.Inline {
		return harness.Encode(s.Args...)
	}
	var b strings.Builder
	for i, a := range s.Args {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte('"')
		for _, c := range []byte(a) {
			if c > ' ' && c < 0x7f && c != '"' && c != '\\' {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		}
		b.WriteByte('"')
	}
	b.WriteString("\r\n")
	return b.String()
}

// String is the step as a line of a transcript.
func (s *Step) String() string {
	words := make([]string, len(s.Args))
	for i, a := range s.Args {
		words[i] = fmt.Sprintf("%q", a)
	}
	line := strings.Join(words, " ")
	if s.Inline {
		line += "   (inline)"
	}
	return line
}

// writer writes scripts of one kind.
type writer struct {
	vocabulary Vocabulary
	commands   []*Command     // that come up anywhere
	data       []*Command     // those of them that have keys: most of a script
	states     []*Command     // those that change the connection's state
	suffix     string         // of the keys
	table      *command.Table // finds them, where there is a suffix
	listening  bool
	garbled    bool // scripts have a tail
}

// fewest and most are the number of commands that a script chooses.
const (
	fewest = 20
	most   = 120
)

func (w *writer) script(rng *rand.Rand) *Script {
	s := &Script{Delivery: Delivery(rng.IntN(3)), cuts: rng.Uint64()}
	if w.listening {
		s.Delivery = Delivery(1 + rng.IntN(2))
	}
	m := &caller{rng: rng, keys: keys{w.suffix}}
	if w.garbled {
		s.Tail, s.Delivery = garbled(rng), Delivery(1+rng.IntN(2))
	}
	if rng.IntN(2) == 0 {
		s.Steps = append(s.Steps, w.step("HELLO", "3"))
	}
	if !w.garbled && !w.listening && rng.IntN(4) > 0 {
		w.furnish(s)
	}
	transactions := rng.IntN(2) == 0
	length := fewest + rng.IntN(most-fewest)
	if w.garbled {
		length = rng.IntN(6)
	}
	for range length {
		if transactions && rng.IntN(8) == 0 {
			w.transaction(s, m)
			continue
		}
		w.add(s, m)
	}
	return s
}

// furniture is data of each type, which the commands that need some find, if nothing has replaced it.
var furniture = [][]string{
	{"SET", "s1", "ohmytext"},
	{"SETBIT", "b1", "7", "1"},
	{"PFADD", "p1", "a", "b"},
	{"HSET", "h1", "a", "1", "f", "v"},
	{"RPUSH", "l1", "a", "b", "c", "1"},
	{"SADD", "t1", "1", "2", "3"},
	{"SADD", "t2", "a", "b", "2"},
	{"ZADD", "z1", "1", "a", "2.5", "b", "3", "c"},
	{"GEOADD", "g1", "13.361389", "38.115556", "Palermo", "15.087269", "37.502669", "Catania"},
	{"XADD", "x1", "1-1", "f", "v"},
	{"XADD", "x1", "2-1", "g", "w"},
	{"XGROUP", "CREATE", "x1", "gr1", "0"},
	{"XGROUP", "CREATE", "x2", "gr2", "$", "MKSTREAM"},
	{"XREADGROUP", "GROUP", "gr1", "c1", "COUNT", "1", "STREAMS", "x1", ">"},
}

// furnish makes the script begin with data.
func (w *writer) furnish(s *Script) {
	for _, args := range furniture {
		args = slices.Clone(args)
		at := 1
		switch args[0] {
		case "XGROUP":
			at = 2
		case "XREADGROUP":
			at = len(args) - 2
		}
		args[at] += w.suffix
		s.Steps = append(s.Steps, w.step(args...))
	}
	if w.suffix == "" {
		s.Steps = append(s.Steps, w.step("FUNCTION", "LOAD", libraries[0]))
	}
}

// garbled is a few commands of which some bytes are wrong, and what no server takes for a command,
// long enough to end whatever was begun. Lengths stay below its length.
func garbled(rng *rand.Rand) string {
	good := Step{Args: []string{"SET", "s1", one(rng, values)}, Inline: rng.IntN(4) == 0}
	more := Step{Args: []string{"ECHO", one(rng, strange)}}
	bytes := []byte(good.bytes() + more.bytes() + good.bytes())
	wrong := []byte("*$\r\n\x00\"' -0159x+:\xff\\")
	for range 1 + rng.IntN(3) {
		at := rng.IntN(len(bytes))
		switch c := wrong[rng.IntN(len(wrong))]; rng.IntN(3) {
		case 0:
			bytes[at] = c
		case 1:
			bytes = slices.Insert(bytes, at, c)
		case 2:
			bytes = slices.Delete(bytes, at, at+1)
		}
	}
	return string(bytes) + strings.Repeat("*1\r\n$x\r\n", 9000) // more than a line may have
}

// transaction is MULTI … EXEC, often after a WATCH.
func (w *writer) transaction(s *Script, m *caller) {
	if m.rng.IntN(2) == 0 {
		s.Steps = append(s.Steps, w.step("WATCH", m.keys.pick(m.rng, ""), m.keys.pick(m.rng, "")))
		for range m.rng.IntN(3) {
			w.add(s, m)
		}
	}
	s.Steps = append(s.Steps, w.step("MULTI"))
	m.open = true
	for range m.rng.IntN(6) {
		w.add(s, m)
	}
	if m.rng.IntN(8) > 0 {
		s.Steps = append(s.Steps, w.step("EXEC"))
	} else {
		s.Steps = append(s.Steps, w.step("DISCARD"))
	}
	m.open = false
}

// add adds a call of some command.
func (w *writer) add(s *Script, m *caller) {
	if m.rng.IntN(200) == 0 {
		s.Steps = append(s.Steps, Step{Args: []string{one(m.rng, []string{"nonsense", "", "GETT", "\xff"}), m.keys.pick(m.rng, "")}})
		return
	}
	from := w.commands
	if !w.listening {
		switch n := m.rng.IntN(20); {
		case n < 17:
			from = w.data
		case n < 18:
			from = w.states
		}
	}
	c := from[m.rng.IntN(len(from))]
	step := Step{Command: c, Args: m.call(c), Inline: m.rng.IntN(12) == 0}
	for w.suffix != "" && !w.own(step.Args) {
		step.Args = m.call(c)
	}
	if strings.HasSuffix(c.Name, "subscribe") {
		if len(step.Args) == 1 && m.subscribed {
			step.Args = append(step.Args, "ch1") // the order in which all are left depends on a hash seed
		}
		m.subscribed = true
	}
	if c.Name == "psubscribe" || c.Name == "punsubscribe" {
		disjoint(m.rng, step.Args[1:])
	}
	if m.open && (c.Name == "client|reply" || w.listening && c.Name == "select") {
		return // refused: half of EXEC's reply would be missing, or its replies can't be counted
	}
	m.take(&step)
	s.Steps = append(s.Steps, step)
	if key, ok := unsteady(c, step.Args); ok {
		after := w.step("DEL", key)
		after.With = true
		s.Steps = append(s.Steps, after)
	}
}

// disjoint makes patterns of which no two fit one channel: which of two gets its message first
// depends on a hash seed.
func disjoint(rng *rand.Rand, args []string) {
	for i := range args {
		args[i] = one(rng, []string{"c[h]1", "ch2", "no*", "\\*"})
	}
}

// own reports whether all keys of a call are this client's.
func (w *writer) own(args []string) bool {
	call := make([][]byte, len(args))
	for i, a := range args {
		call[i] = []byte(a)
	}
	c, ok := w.table.Lookup(call)
	if !ok {
		return true
	}
	keys, complete := c.Keys(nil, call)
	for _, k := range keys {
		complete = complete && strings.HasSuffix(args[k.Index], w.suffix)
	}
	return complete
}

func (w *writer) step(args ...string) Step {
	return Step{Command: w.vocabulary.Lookup(args), Args: args}
}

// units are the script's steps in groups that only make sense together.
func (s *Script) units() [][]Step {
	var units [][]Step
	for _, step := range s.Steps {
		if step.With && len(units) > 0 {
			units[len(units)-1] = append(units[len(units)-1], step)
			continue
		}
		units = append(units, []Step{step})
	}
	return units
}

// of is the same script with only these units.
func (s *Script) of(units [][]Step) *Script {
	short := &Script{Delivery: s.Delivery, Tail: s.Tail, cuts: s.cuts}
	for _, u := range units {
		short.Steps = append(short.Steps, u...)
	}
	return short
}
