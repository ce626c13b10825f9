package harness

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports are taken from below the range that the kernel uses for outgoing
// connections, so a client's socket cannot grab one between choice and use.
const (
	firstPort = 12000
	lastPort  = 32000
)

// FreePort returns a loopback TCP port that nobody listens on, for a server that
// cannot report the port it chose itself.
//
// Between choice and use anybody could take it. Among tests nobody does: the UDP port
// of the same number is held until the test ends, and stands as the register's
// entry for all test binaries on the machine; the kernel clears it when one dies.
func FreePort(tb testing.TB) int {
	tb.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if entry := claim(port); entry != nil {
			tb.Cleanup(func() { _ = entry.Close() })
			return port
		}
	}
	tb.Fatal("no free loopback port found")
	return 0
}

// claim enters the port in the register; nil means that it is taken.
func claim(port int) net.PacketConn {
	addr := loopback(port)
	entry, err := net.ListenPacket("udp", addr)
	if err != nil {
		return nil
	}
	probe, err := net.Listen("tcp", addr)
	if err != nil {
		_ = entry.Close()
		return nil
	}
	_ = probe.Close()
	return entry
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
