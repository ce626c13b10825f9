//go:build integration

package soak

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// connection is a TCP connection that a process has open, whether or not the other side has closed its end.
type connection struct {
	local int // its port on this side
	state string
}

func (c connection) String() string { return fmt.Sprintf("from port %d, %s", c.local, c.state) }

// The states of a TCP connection that a process may still have open, by their numbers in /proc/net/tcp.
var tcpStates = map[string]string{"01": "established", "04": "closing", "05": "closing", "07": "closed", "08": "closed by the other side", "09": "closing"}

// connectionsTo are those that a process has open to an address, and those that were reset, of which nobody can tell any more where
// they led.
func connectionsTo(tb testing.TB, pid int, addr string) (found []connection) {
	tb.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	left := sockets(tb, pid)
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			tb.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			const local, remote, state, inode = 1, 2, 3, 9
			f := strings.Fields(line)
			if len(f) <= inode || !left[f[inode]] {
				continue
			}
			delete(left, f[inode])
			if strconv.Itoa(portOf(f[remote])) == port {
				name := tcpStates[f[state]]
				if name == "" {
					name = "state " + f[state]
				}
				found = append(found, connection{portOf(f[local]), name})
			}
		}
	}
	for range left {
		found = append(found, connection{0, "reset"})
	}
	return found
}

// portOf is the port of an address as /proc/net/tcp has it; 0: it is none.
func portOf(address string) int {
	_, digits, _ := strings.Cut(address, ":")
	port, err := strconv.ParseUint(digits, 16, 16)
	if err != nil {
		return 0
	}
	return int(port)
}

// sockets are the inodes of those that a process has open. It has none but TCP's.
func sockets(tb testing.TB, pid int) map[string]bool {
	tb.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	open, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	inodes := map[string]bool{}
	for _, fd := range open {
		target, _ := os.Readlink(dir + fd.Name()) // it may have been closed
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}
