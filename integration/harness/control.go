package harness

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// CommandCount is how many commands the server has executed since it started, not
// counting the harness's own: INFO's total_commands_processed. A command that a
// script calls and each command of a transaction count, as MULTI and EXEC do.
func (r *Redis) CommandCount(ctx context.Context) int64 {
	r.tb.Helper()
	total, _ := r.control.counts(ctx)
	return total
}

// CommandCalls is CommandCount by command: INFO's commandstats. Names are in lower
// case, subcommands as in "client|setinfo".
func (r *Redis) CommandCalls(ctx context.Context) map[string]int64 {
	r.tb.Helper()
	_, calls := r.control.counts(ctx)
	return calls
}

// control is the harness's own connection to a server, and remembers what it sent
// there so that it can be left out of the counts.
type control struct {
	tb       testing.TB
	addr     string
	password string

	mu   sync.Mutex
	conn net.Conn // nil when there is none
	in   *bufio.Reader
	sent map[string]int64 // executed since the server started, by command
}

// restarted forgets what was sent to the server's former life.
func (c *control) restarted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangUp()
	c.sent = map[string]int64{}
}

// connect says whether the server is ready.
func (c *control) connect() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reconnect() == nil
}

func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangUp()
}

// counts are the server's counters without the share of the harness.
func (c *control) counts(ctx context.Context) (total int64, calls map[string]int64) {
	c.tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := c.info(ctx)
	if err != nil { // a test may have killed the connection
		c.hangUp()
		if err = c.reconnect(); err == nil {
			info, err = c.info(ctx)
		}
	}
	if err != nil {
		c.hangUp()
		c.tb.Fatalf("ask redis-server %s for its counters: %v", c.addr, err)
	}
	total, calls = parseCounts(info)
	for name, n := range c.sent {
		total -= n
		if calls[name] -= n; calls[name] == 0 {
			delete(calls, name)
		}
	}
	c.sent["info"]++ // INFO doesn't count itself yet
	return total, calls
}

func (c *control) info(ctx context.Context) (string, error) {
	if c.conn == nil {
		return "", net.ErrClosed
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(patience)
	}
	_ = c.conn.SetDeadline(deadline)
	return c.ask("INFO", "all")
}

func (c *control) reconnect() error {
	c.hangUp()
	conn, err := dial(c.addr)
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	c.conn, c.in = conn, bufio.NewReader(conn)
	if c.password != "" {
		if _, err := c.ask("AUTH", c.password); err != nil {
			return err
		}
		c.sent["auth"]++
	}
	switch _, err = c.ask("PING"); {
	case err == nil:
		c.sent["ping"]++
		return nil
	case strings.HasPrefix(err.Error(), "NOAUTH"): // an answer too, and it isn't counted
		return nil
	default:
		return err
	}
}

func (c *control) ask(args ...string) (string, error) {
	if _, err := io.WriteString(c.conn, Encode(args...)); err != nil {
		return "", err
	}
	reply, _, err := readReply(c.in)
	if err != nil {
		return "", err
	}
	if refusal, ok := reply.(ReplyError); ok {
		return "", refusal
	}
	text, _ := reply.(string)
	return text, nil
}

func (c *control) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func parseCounts(info string) (total int64, calls map[string]int64) {
	calls = map[string]int64{}
	for line := range strings.SplitSeq(info, "\r\n") {
		key, value, _ := strings.Cut(line, ":")
		if key == "total_commands_processed" {
			total, _ = strconv.ParseInt(value, 10, 64)
		}
		if name, ok := strings.CutPrefix(key, "cmdstat_"); ok {
			n, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			calls[name], _ = strconv.ParseInt(n, 10, 64)
		}
	}
	return total, calls
}
