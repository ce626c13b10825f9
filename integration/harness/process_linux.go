package harness

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether a signal has stopped the process, every thread of it.
func stopped(pid int) bool {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return false
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		// "pid (name) state …", where a name may hold parentheses itself.
		end := bytes.LastIndexByte(stat, ')')
		if err != nil || end < 0 || len(stat) < end+3 || stat[end+2] != 'T' {
			return false
		}
	}
	return len(tasks) > 0
}
