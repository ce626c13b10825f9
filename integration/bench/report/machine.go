package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine is what a run was measured on.
type Machine struct {
	Cores  int
	CPU    string // its model
	Memory string
	Kernel string
	Load   string // the load averages of the last 1, 5 and 15 minutes
	At     time.Time
}

// Look describes this machine as it is now. What the system does not tell is "unknown".
func Look() Machine {
	return Machine{
		Cores:  runtime.NumCPU(),
		CPU:    line("/proc/cpuinfo", "model name"),
		Memory: gibibytes(line("/proc/meminfo", "MemTotal")),
		Kernel: first("/proc/sys/kernel/osrelease", 1),
		Load:   first("/proc/loadavg", 3),
		At:     time.Now().UTC(),
	}
}

const unknown = "unknown"

// line is the text behind "name :" in a file of /proc.
func line(file, name string) string {
	text, _ := os.ReadFile(file)
	for l := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return unknown
}

// first are the first n words of a file.
func first(file string, n int) string {
	text, _ := os.ReadFile(file)
	words := strings.Fields(string(text))
	if len(words) < n {
		return unknown
	}
	return strings.Join(words[:n], " ")
}

func gibibytes(text string) string {
	var kib float64
	if _, err := fmt.Sscanf(text, "%f kB", &kib); err != nil {
		return unknown
	}
	return fmt.Sprintf("%.0f GiB", kib/(1<<20))
}
