package config

import "fmt"

// Error is one mistake in the configuration.
type Error struct {
	File    string // as given; "" if the value came from a variable or a flag
	Line    int    // from 1; 0 if the mistake has no line
	Key     string // "rules[0].wait", "FENCE_LISTEN" or "--listen"; "" for the file as a whole
	Problem string // what is wrong
	Remedy  string // what to do or write instead
}

// Error puts the mistake on one line: FILE:LINE: KEY: PROBLEM: REMEDY.
func (e *Error) Error() string {
	text := ""
	if e.File != "" {
		text = e.File
		if e.Line > 0 {
			text = fmt.Sprintf("%s:%d", text, e.Line)
		}
		text += ": "
	}
	if e.Key != "" {
		text += e.Key + ": "
	}
	return text + e.Problem + ": " + e.Remedy
}

// fault is what is wrong with a value, wherever it came from.
type fault struct{ problem, remedy string }
