package config

import (
	"slices"
	"strings"
)

// variable returns the name of an option's environment variable.
func variable(key string) string {
	return "FENCE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// strayVariables notes the variables that are nearly, but not quite, an
// option's.
func strayVariables(environ []string) []string {
	var known, notes []string
	for _, o := range options() {
		known = append(known, variable(o.key))
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "FENCE_") || slices.Contains(known, name) || name == variable("rules") || name == variable("users") {
			continue
		}
		if best := nearest(name, known); best != "" {
			notes = append(notes, name+" is set but is no option: did you mean "+best+"?")
		}
	}
	slices.Sort(notes)
	return notes
}
