package upstream

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// Ping connects, logs in and says PING. The error says why the upstream can't be used; one that asks
// clients to log in themselves can.
func (e *Endpoint) Ping(ctx context.Context) error {
	nc, err := e.Dial(ctx, 0, 2)
	if err != nil {
		return err
	}
	defer nc.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = nc.SetDeadline(deadline)
	}
	if _, err := nc.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return fmt.Errorf("ping the upstream: %w", err)
	}
	line, err := reply(bufio.NewReaderSize(nc, 512))
	if err != nil {
		return fmt.Errorf("ping the upstream: %w", err)
	}
	if text := strings.TrimSpace(string(line)); text != "+PONG" && !strings.HasPrefix(text, "-NOAUTH") && !strings.HasPrefix(text, "-NOPERM") {
		return fmt.Errorf("the upstream answers %q", text)
	}
	return nil
}
