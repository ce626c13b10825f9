package proxy

import (
	"bytes"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

// Who lists the keys of a session, to find out which is the newest, say, goes on from what there is, as from a value. So
// KEYS and SCAN with a pattern that only keys of one session fit are reads of that session.

// lists returns a key of the session whose keys a call lists, or the key for which it looks; nil if it lists others.
func (c *client) lists(cmd *command.Command, args [][]byte) []byte {
	var pattern []byte
	switch cmd.Name {
	case "keys":
		if len(args) == 2 {
			pattern = args[1]
		}
	case "scan":
		for i := 2; i+1 < len(args); i += 2 {
			if isWord(args[i], "MATCH") {
				pattern = args[i+1] // the last one counts
			}
		}
	}
	if len(pattern) == 0 || isReserved(pattern) {
		return nil
	}
	prefix := pattern
	if end := bytes.IndexAny(pattern, `*?[\`); end >= 0 {
		prefix = pattern[:end]
		if c.srv.rules.now().set.Within(prefix) == nil || bytes.HasPrefix(reservedPrefix, prefix) {
			return nil
		}
	}
	return prefix
}
