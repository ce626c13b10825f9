package fuzz

import (
	"strings"
)

// denial is a FENCEDENIED, and where it was met.
type denial struct {
	step    *Step
	message string
}

// exception is something that the guard refuses and says so in the documentation.
type exception struct {
	name, reason string
	fits         func(d denial) bool
	// refused: Redis has to refuse the call too, if in other words.
	refused bool
}

// exceptions is the whole list. What is not refused any more is to be deleted here.
var exceptions = []exception{
	{
		name: "another database", reason: "MOVE and COPY … DB write where the connection can't fence",
		fits: func(d denial) bool {
			return d.step.Command != nil && (d.step.Command.Name == "move" || d.step.Command.Name == "copy")
		},
	},
	{
		name: "states in a transaction", reason: "SELECT of another database, HELLO, AUTH and their kind can't be beside guarded commands",
		fits: func(d denial) bool {
			return strings.Contains(d.message, "can't reach into another database by SELECT") ||
				strings.Contains(d.message, "a transaction that is guarded can't have ") ||
				strings.Contains(d.message, "can't be guarded in a transaction of more than ")
		},
	},
	{
		name: "SORT by pattern", reason: "the keys that BY and GET read are made from the values",
		fits: func(d denial) bool {
			return d.step.Command != nil && strings.HasPrefix(d.step.Command.Name, "sort") && strings.Contains(strings.Join(d.step.Args, " "), "*")
		},
	},
	{
		name: "unknown command", reason: "a word of it may be a key", refused: true,
		fits: func(d denial) bool { return d.step.Command == nil },
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
