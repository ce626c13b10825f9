package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// cpuTime is the processor time that the threads of processes have used so far; 0 where the
// system does not tell. Process 0 is none.
func cpuTime(pids ...int) time.Duration {
	var threads []string
	for _, pid := range pids {
		of, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		threads = append(threads, of...)
	}
	var sum time.Duration
	for _, thread := range threads {
		var nanoseconds int64
		if text, err := os.ReadFile(thread); err == nil {
			_, _ = fmt.Sscan(string(text), &nanoseconds)
		}
		sum += time.Duration(nanoseconds)
	}
	return sum
}

// micros is a time in microseconds for each of n.
func micros(d time.Duration, n int) float64 {
	return float64(d) / float64(time.Microsecond) / float64(n)
}
