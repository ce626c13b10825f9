package fuzz

import (
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

// tag is what the keys of a script for a cluster end with.
const tag = "{t}"

// unclustered reports whether a command is about one node, or about all of them, which can't be had inside MULTI, or about a
// channel or a cursor that the script would have to know the place of.
func unclustered(c *Command) bool {
	switch c.Name {
	case "hello", "auth", "client|setname", "client|setinfo", "client|no-evict", "client|no-touch", "client|caching",
		"readonly", "readwrite", "asking", "restore-asking", "spublish":
		return true
	}
	if strings.HasPrefix(c.Name, "evalsha") {
		return true // scripts of scripts before are remembered
	}
	return !c.Keyed && c.Group != "connection" && c.Group != "transactions"
}

// unguardable are commands that a guarded script does not have: they move or delete the fence
// records themselves, which breaks every sequence as it must.
var unguardable = map[string]string{
	"flushall": "deletes the fence records with the data",
	"flushdb":  "deletes the fence records with the data",
	"swapdb":   "moves the fence records to another database with the data",
}
