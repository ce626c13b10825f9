//go:build integration

package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Clients that move much at once do so over connections of their own. Whatever goes that way and whatever goes over
// a shared one, each reply comes in its place.
func TestRepliesKeepTheirOrderHoweverMuchClientsMove(t *testing.T) {
	t.Parallel()
	const clients, rounds = 10, 4
	server := harness.StartRedis(t)
	p := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("mode: fence")})
	errs := make(chan error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			conn, err := harness.Connect(p.Addr)
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close()
			errs <- movesMuch(conn, i, rounds)
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
}

// movesMuch sends pipelines of values of all sizes, with small commands, unknown ones and guarded ones between, and checks every reply.
func movesMuch(conn *harness.RawConn, i, rounds int) error {
	sizes := []int{0, 10, 4 << 10, 16 << 10, 17 << 10, 70 << 10, 300 << 10}
	for round := range rounds {
		var requests strings.Builder
		var want []string
		add := func(reply string, args ...string) {
			requests.WriteString(harness.Encode(args...))
			want = append(want, reply)
		}
		for n := range 1 + (round*7+i)%20 {
			key, value := fmt.Sprintf("plain:%d:%d", i, n), strings.Repeat(string(rune('a'+(round+n)%26)), sizes[(round+n*i)%len(sizes)])
			add("+OK\r\n", "SET", key, value)
			switch (round + n) % 5 {
			case 0:
				add("+PONG\r\n", "PING")
			case 1:
				add("+OK\r\n", "SET", fmt.Sprintf("ctx:%d", i), value)
				add(bulk(value), "GET", fmt.Sprintf("ctx:%d", i))
			case 2:
				add("-ERR wrong number of arguments for 'get' command\r\n", "GET")
			case 3:
				add("+OK\r\n", "SELECT", "0")
			}
			add(bulk(value), "GET", key)
			add(fmt.Sprintf(":%d\r\n", len(value)), "STRLEN", key)
		}
		sent := make(chan error, 1)
		go func() {
			_, err := conn.Write([]byte(requests.String()))
			sent <- err
		}()
		for n, w := range want {
			got, err := conn.Read()
			if err != nil {
				return fmt.Errorf("client %d, round %d, reply %d: %w", i, round, n, err)
			}
			if string(got) != w {
				return fmt.Errorf("client %d, round %d, reply %d: %.60q, want %.60q", i, round, n, got, w)
			}
		}
		if err := <-sent; err != nil {
			return err
		}
	}
	return nil
}

func bulk(value string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(value), value) }
