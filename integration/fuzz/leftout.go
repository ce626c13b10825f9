package fuzz

import (
	"slices"
	"strings"
)

// leftOut are commands that no script has, each with the reason.
var leftOut = map[string]string{
	"shutdown":     "ends the server",
	"debug":        "crashes, stops or changes the server",
	"failover":     "waits for replicas",
	"replicaof":    "makes the server a replica",
	"slaveof":      "makes the server a replica",
	"replconf":     "makes the connection a replica's",
	"psync":        "makes the connection a replica's",
	"sync":         "makes the connection a replica's",
	"monitor":      "shows the time, and the other connections' commands",
	"migrate":      "connects to another server",
	"save":         "writes files",
	"bgsave":       "writes files, and what it answers depends on whether one is being written",
	"bgrewriteaof": "writes files, and what it answers depends on whether one is being written",
	"pfselftest":   "takes a second",
	"quit":         "ends each script",

	"acl|setuser":     "changes the rights of the proxy too",
	"client|kill":     "ends other connections, and the ids differ",
	"client|pause":    "makes everything wait",
	"client|unblock":  "the ids differ",
	"client|tracking": "messages come when they come: their place among the replies differs",
	"config|set":      "stays for the scripts that follow",
	"script|debug":    "turns the connection into a debugger's",
}

// listens reports whether a command turns the connection into one whose replies can't be counted:
// these are for scripts of their own.
func listens(c *Command) bool {
	switch c.Name {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe", "client|reply":
		return true
	}
	return false
}

// everywhere reports whether a command looks at or changes what belongs to all clients: the scripts
// that EVAL has left too.
func everywhere(c *Command) bool {
	return strings.HasPrefix(c.Name, "evalsha") || !c.Keyed && (c.flags["readonly"] || c.flags["write"] || c.categories["@scripting"])
}

// unguardable are commands that a guarded script does not have: they move or delete the fence
// records themselves, which breaks every sequence as it must.
var unguardable = map[string]string{
	"flushall": "deletes the fence records with the data",
	"flushdb":  "deletes the fence records with the data",
	"swapdb":   "moves the fence records to another database with the data",
}

// unmended reports whether a step is one that the proxy is known to get wrong. What is mended is to
// be deleted here.
func (w *writer) unmended(s Step, multi bool) bool {
	switch s.Command.Name {
	case "select": // its database counts as the connection's even if its EXEC refuses it, or has raw replies
		return multi
	case "hello": // its protocol does not count for shared connections
		return multi
	case "keys", "scan", "randomkey": // inside MULTI they show fence records
		return multi
	case "reset": // inside MULTI the proxy does not see that it ends the transaction
		return multi
	case "multi", "discard", "unwatch": // with an argument: Redis refuses them, and the proxy takes them for carried out
		return len(s.Args) != 1
	case "watch": // likewise
		return len(s.Args) < 2
	case "getex": // a moment that is over deletes the key, and the proxy takes that for a read that can be repeated
		return slices.ContainsFunc(s.Args, func(a string) bool { return lower(a) == "exat" || lower(a) == "pxat" })
	}
	return false
}
