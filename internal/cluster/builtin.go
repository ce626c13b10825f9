package cluster

import (
	"sync"

	"github.com/fence-proxy/fence-proxy/internal/command"
)

// builtins are the commands of Redis 7.0, for servers that don't give its advice.
var builtins = sync.OnceValue(func() map[string]*command.Command {
	all := map[string]*command.Command{}
	for c := range command.Builtin().All() {
		all[c.Name] = c
	}
	return all
})
