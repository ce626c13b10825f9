package doctor

import (
	"fmt"
	"slices"
)

// Level says how a finding is meant.
type Level string

// The levels, from good to bad.
const (
	OK     Level = "ok"
	Unsure Level = "unsure"
	Warn   Level = "warn"
	Fail   Level = "fail"
)

// Finding is what one check says.
type Finding struct {
	// Check is the check's name, one word.
	Check string `json:"check"`
	// Node is the address of the Redis that is meant, where there are several.
	Node string `json:"node,omitempty"`
	// Level says how it is meant.
	Level Level `json:"level"`
	// What is what was found, one line.
	What string `json:"what"`
	// Remedy is what to do about it, one line; "" if there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Healthy reports whether no finding is a failure.
func Healthy(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.Level == Fail })
}

// Summary counts the findings of each level.
func Summary(findings []Finding) string {
	counts := map[Level]int{}
	for _, f := range findings {
		counts[f.Level]++
	}
	return fmt.Sprintf("%d ok, %d unsure, %d warnings, %d failures", counts[OK], counts[Unsure], counts[Warn], counts[Fail])
}
