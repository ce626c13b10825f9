package fuzz

import (
	"strings"
)

// denial is a refusal of the guard's, and where it was met.
type denial struct {
	step    *Step
	message string
}

// exception is something that the guard refuses and says so in the documentation.
type exception struct {
	name, reason string
	fits         func(d denial) bool
}

// exceptions is the whole list. What is not refused any more is to be deleted here.
var exceptions = []exception{
	{
		name: "states in a transaction", reason: "SELECT of another database, HELLO, AUTH and their kind can't be beside guarded commands",
		fits: func(d denial) bool {
			return strings.Contains(d.message, "can't reach into another database by SELECT") ||
				strings.Contains(d.message, "a transaction that is guarded can't have ") ||
				strings.Contains(d.message, "can't be guarded in a transaction of more than ")
		},
	},
	{
		name: "written after a SORT by pattern", reason: "whether the value is still the one that was read can't be told",
		fits: func(d denial) bool { return strings.Contains(d.message, "may have read the key by a pattern") },
	},
	{
		name: "sent behind such a write", reason: "it goes back to the same reads, and the client could not hear of the refusal before",
		fits: func(d denial) bool {
			return strings.Contains(d.message, "a command before this one was refused, and this one was sent before")
		},
	},
}

// differing are commands whose replies show what the guard has at the server.
var differing = map[string]string{
	"dbsize": "counts the fence records, which are keys beside the data",
}

// fitting is the index of the exception that a denial is, or -1.
func fitting(d denial) int {
	for i := range exceptions {
		if exceptions[i].fits(d) {
			return i
		}
	}
	return -1
}
