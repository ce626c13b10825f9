package observe

import (
	"hash/maphash"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

// Arguments are a client's: they may be anything, and nothing.
func TestNoArgumentIsTooShortToTellWhatACallDoes(t *testing.T) {
	table, seed := command.Builtin(), maphash.MakeSeed()
	for cmd := range table.All() {
		for n := 1; n < 9; n++ {
			args := make([][]byte, n)
			args[0] = []byte(cmd.Name)
			call := &Call{Command: cmd, Args: args}
			call.of(command.Write, true)
			call.of(command.Read, false)
			call.parts(seed)
		}
	}
	args := [][]byte{[]byte("LTRIM"), []byte("k"), {}, []byte("-1")}
	cmd, _ := table.Lookup(args)
	call := &Call{Command: cmd, Args: args}
	if call.takes() {
		t.Error("an LTRIM from nowhere takes the oldest")
	}
}
