package observe

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

// BenchmarkCycle observes the read and the write of a key.
func BenchmarkCycle(b *testing.B) {
	table := command.Builtin()
	call := func(args ...string) *Call {
		c := &Call{}
		for _, a := range args {
			c.Args = append(c.Args, []byte(a))
		}
		c.Command, _ = table.Lookup(c.Args)
		c.Keys, _ = c.Command.Keys(nil, c.Args)
		return c
	}
	get, set := call("GET", "agent:ctx:42:history"), call("SET", "agent:ctx:42:history", "value")
	c := New(DefaultTurn).Connect("10.0.0.1:1")
	value, ok := []byte("$5\r\nvalue\r\n"), []byte("+OK\r\n")
	b.ReportAllocs()
	for b.Loop() {
		read := c.Send(get)
		read.Begin()
		read.Hear(value, true)
		write := c.Send(set)
		write.Begin()
		write.Hear(ok, true)
	}
}
