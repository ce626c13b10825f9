//go:build !linux

package harness

import "syscall"

// Elsewhere the kernel does not tie a child's life to its parent's: a test
// binary that is killed leaves its children behind.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// stopped cannot look: a signal is taken as delivered.
func stopped(int) bool { return true }
