package bench

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// swarm is connections that send one command after the other, without a client library, so that thousands of them leave something of the
// machine for the proxy.
type swarm []*harness.RawConn

// connecting is how many connections are made at once: fewer than a listener's backlog has room for.
const connecting = 64

// newSwarm connects n times.
func newSwarm(tb testing.TB, addr string, n int) swarm {
	tb.Helper()
	s := make(swarm, n)
	tb.Cleanup(s.close)
	errs := make([]error, connecting)
	var wg sync.WaitGroup
	for worker := range connecting {
		wg.Go(func() {
			for i := worker; i < n && errs[worker] == nil; i += connecting {
				s[i], errs[worker] = harness.Connect(addr)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatalf("%d connections (see ulimit -n): %v", n, err)
	}
	return s
}

func (s swarm) close() {
	for _, conn := range s {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// job is what a connection repeats: commands, each sent when the one before it was answered. n counts the connection's own repetitions.
type job func(conn, n int) [][]string

// during repeats a job over all connections for a time, and until all that was begun is done. It returns how often it was done. An error reply is
// an error.
func (s swarm) during(length time.Duration, do job) (int, error) {
	end := time.Now().Add(length)
	return s.repeat(do, func(int, int) bool { return time.Now().Before(end) })
}

// times has each connection do a job n times.
func (s swarm) times(n int, do job) (int, error) {
	return s.repeat(do, func(_, done int) bool { return done < n })
}

func (s swarm) repeat(do job, goOn func(conn, done int) bool) (int, error) {
	done, errs := make([]int, len(s)), make([]error, len(s))
	var wg sync.WaitGroup
	for i, conn := range s {
		wg.Go(func() {
			for goOn(i, done[i]) {
				for _, command := range do(i, done[i]) {
					if errs[i] = ask(conn, command); errs[i] != nil {
						return
					}
				}
				done[i]++
			}
		})
	}
	wg.Wait()
	sum := 0
	for i, n := range done {
		sum += n
		if errs[i] != nil {
			return sum, fmt.Errorf("connection %d of %d: %w", i, len(s), errs[i])
		}
	}
	return sum, nil
}

func ask(conn *harness.RawConn, command []string) error {
	if _, err := conn.Write([]byte(harness.Encode(command...))); err != nil {
		return err
	}
	reply, err := conn.Read()
	if err != nil {
		return err
	}
	if strings.HasPrefix(string(reply[:1]), "-") {
		return fmt.Errorf("%s: %s", command[0], reply)
	}
	return nil
}
