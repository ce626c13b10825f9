package observe

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// play has connections send commands to a Redis that answers as it is told.
type play struct {
	*testing.T
	o     *Observer
	table *command.Table
	conns map[string]*Conn
}

func newPlay(t *testing.T) *play {
	t.Helper()
	return &play{T: t, o: New(DefaultTurn), table: command.Builtin(), conns: map[string]*Conn{}}
}

// conn returns the connection of a name: "a" and "a/2" are connections of one client, "b" is one of another.
func (p *play) conn(name string) *Conn {
	c := p.conns[name]
	if c == nil {
		client, _, _ := strings.Cut(name, "/")
		c = p.o.Connect("10.0.0.1:1")
		c.Identify(Client{Address: "10.0.0.1:" + name, Name: client})
		p.conns[name] = c
	}
	return c
}

func (p *play) call(line string) *Call {
	p.Helper()
	var args [][]byte
	for _, word := range strings.Fields(line) {
		args = append(args, []byte(word))
	}
	cmd, ok := p.table.Lookup(args)
	if !ok {
		p.Fatalf("no command in %q", line)
	}
	keys, _ := cmd.Keys(nil, args)
	call := &Call{Command: cmd, Args: args, Keys: keys}
	switch cmd.Name {
	case "rpush", "lpush", "incr", "sadd", "append":
		call.Atomic = true
	case "expire", "persist":
		call.Touch = true
	case "blpop":
		call.Atomic, call.Blocks = true, true
	}
	return call
}

// send sends a command that need not wait; it is nil if nothing is to be seen of it.
func (p *play) send(conn, line string) *Pending {
	p.Helper()
	pending := p.conn(conn).Send(p.call(line))
	if pending != nil && !pending.Begin() {
		p.Fatalf("%s: %s has to wait", conn, line)
	}
	return pending
}

func answer(pending *Pending, reply string) {
	if pending != nil {
		pending.Hear([]byte(reply), true)
	}
}

// run has commands sent and answered one after the other: "a GET k", "b SET k v -> $-1".
func (p *play) run(lines ...string) {
	p.Helper()
	for _, line := range lines {
		line, reply, given := strings.Cut(line, " -> ")
		if !given {
			reply = "+OK"
		}
		conn, line, _ := strings.Cut(line, " ")
		answer(p.send(conn, line), reply+"\r\n")
	}
}

// pattern returns what was found of the only pattern.
func (p *play) pattern() Pattern {
	p.Helper()
	r := p.o.Report()
	if len(r.Patterns) != 1 {
		p.Fatalf("%d patterns: %+v", len(r.Patterns), r.Patterns)
	}
	return r.Patterns[0]
}
