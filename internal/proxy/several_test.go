package proxy

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// skip reads n lines.
func (a *agent) skip(n int) error {
	for range n {
		if _, err := a.in.ReadString('\n'); err != nil {
			return err
		}
	}
	return nil
}

// answers sends a command and reads a reply of so many lines. The error is an error line, or that
// nothing came.
func (a *agent) answers(command string, lines int) error {
	a.sends(command)
	first, err := a.in.ReadString('\n')
	if err != nil {
		return err
	}
	if first[0] == '-' {
		return &deniedError{reason: first}
	}
	return a.skip(lines - 1)
}

func TestCommandsOnSeveralSessionsDoNotWaitForEachOther(t *testing.T) {
	const rounds = 15
	for name, cycle := range map[string][]func(*agent, int) error{
		"that read and write": {
			func(a *agent, _ int) error { return a.answers("MGET agent:s1:n agent:s2:n agent:s3:n", 7) },
			func(a *agent, n int) error {
				return a.answers("MSET agent:s3:k "+strconv.Itoa(n)+" agent:s1:k x agent:s2:k x", 1)
			},
		},
		"that write blindly, against readers": {
			func(a *agent, n int) error {
				return a.answers("MSET agent:s2:k "+strconv.Itoa(n)+" agent:s1:k x", 1)
			},
			func(a *agent, _ int) error { return a.answers("GET agent:s2:k", 2) },
			func(a *agent, n int) error { return a.answers("SET agent:s2:k "+strconv.Itoa(n), 1) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := serve(t)
			setup := dial(t, to)
			setup.does("MSET agent:s1:n 1 agent:s2:n 1 agent:s3:n 1", "+OK\r\n")
			var clients sync.WaitGroup
			for range 4 {
				a := dial(t, to)
				clients.Go(func() {
					for n := range rounds {
						for i, command := range cycle {
							if err := command(a, n); err != nil {
								t.Errorf("command %d of round %d: %v", i, n, err)
								return
							}
						}
					}
				})
			}
			clients.Wait()
		})
	}
}

// queued waits until somebody stands in line for a session.
func (a *agent) queued(rule, session string) {
	a.Helper()
	direct := redis.NewClient(&redis.Options{Addr: a.to.store})
	defer direct.Close()
	line := tokenstore.NewRecord(tokenstore.Area{}, rule, session).Keys()[2]
	for deadline := time.Now().Add(patience); direct.ZCard(a.Context(), line).Val() == 0; {
		if time.Now().After(deadline) {
			a.Fatalf("nobody waits for %s", session)
		}
	}
}

func TestAWriteThatWaitsForASessionHoldsNoneBehindIt(t *testing.T) {
	to := serve(t)
	a, b, c := dial(t, to), dial(t, to), dial(t, to)
	a.does("GET agent:s2:k", "$-1\r\n")
	b.sends("MSET agent:s1:k b agent:s2:k b")
	a.queued("chat", "s2")
	c.does("GET agent:s1:k", "$-1\r\n")
	a.does("SET agent:s2:k a", "+OK\r\n") // b has s2 now, and finds s1 held
	a.queued("chat", "s1")
	c.does("GET agent:s2:k", "$1\r\na\r\n")
	c.does("MSET agent:s1:k c agent:s2:k c", "+OK\r\n")
	b.gets("+OK\r\n")
	a.does("MGET agent:s1:k agent:s2:k", "*2\r\n$1\r\nb\r\n$1\r\nb\r\n")
}

func TestAWaitForASessionGivesBackThoseBehindItThatLinger(t *testing.T) {
	lingering := chat(func(r *rule.Rule) { r.Linger = time.Minute })
	for _, command := range []string{"MGET agent:s1:k agent:s2:k", "MSET agent:s1:k a agent:s2:k a"} {
		to := serve(t)
		to.becomes(t, lingering)
		a, b := dial(t, to), dial(t, to)
		a.does("GET agent:s2:k", "$-1\r\n")
		a.does("SET agent:s2:k a", "+OK\r\n") // and keeps the session
		b.does("GET agent:s1:k", "$-1\r\n")
		a.sends(command)
		a.queued("chat", "s1")
		b.does("GET agent:s2:k", "$1\r\na\r\n")
		b.does("SET agent:s2:k b", "+OK\r\n")
		b.does("SET agent:s1:k b", "+OK\r\n")
		b.Close()
		if command[1] == 'G' {
			a.gets("*2\r\n$1\r\nb\r\n$1\r\nb\r\n")
		} else {
			a.gets("+OK\r\n")
		}
	}
}
