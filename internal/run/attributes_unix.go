//go:build unix && !linux

package run

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return grouped() }

// isTerminal is not looked into here: a command in the background may not read from its terminal.
func isTerminal(*os.File) bool { return false }
