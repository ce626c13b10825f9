//go:build !unix

package run

import (
	"os"
	"syscall"
)

// Passed are the signals that are passed to the command.
func Passed() []os.Signal { return []os.Signal{os.Interrupt} }

// signal can only end the command where there are no signals.
func (c *child) signal(os.Signal) { _ = c.cmd.Process.Kill() }

func killedBy(*os.ProcessState) (os.Signal, bool) { return nil, false }

func attributes() *syscall.SysProcAttr { return nil }
