package command

import (
	"math/bits"
	"strings"
)

// Flags is the set of flags the server gives a command. Flags this package has
// no name for are left out.
type Flags uint32

// The server's command flags. See https://redis.io/docs/latest/commands/command/
// for what the server means by each.
const (
	FlagWrite Flags = 1 << iota
	FlagReadOnly
	FlagDenyOOM
	FlagAdmin
	FlagPubSub
	FlagNoScript
	FlagBlocking
	FlagLoading
	FlagStale
	FlagSkipMonitor
	FlagSkipSlowlog
	FlagAsking
	FlagFast
	FlagNoAuth
	FlagMayReplicate
	FlagNoMandatoryKeys
	FlagAllowBusy
	FlagNoAsyncLoading
	FlagNoMulti
	// FlagMovable is the server's "movablekeys": where the keys are depends on
	// the arguments.
	FlagMovable
	// FlagModule marks a command that a module added.
	FlagModule
)

// flagNames has the server's name of each flag, in bit order.
var flagNames = [...]string{
	"write", "readonly", "denyoom", "admin", "pubsub", "noscript", "blocking",
	"loading", "stale", "skip_monitor", "skip_slowlog", "asking", "fast",
	"no_auth", "may_replicate", "no_mandatory_keys", "allow_busy",
	"no_async_loading", "no_multi", "movablekeys", "module",
}

// flagOf returns the flag of that name, or none.
func flagOf(name string) Flags {
	for i, n := range flagNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// String lists the flags by the server's names, separated by commas; "-" when
// there are none.
func (f Flags) String() string {
	if f == 0 {
		return "-"
	}
	var b strings.Builder
	for ; f != 0; f &= f - 1 {
		i := bits.TrailingZeros32(uint32(f))
		if i >= len(flagNames) {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(flagNames[i])
	}
	return b.String()
}
