//go:build integration

package integration

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// party is a client with one connection. Its methods say what it does and what it must hear; they
// end the test when it hears something else.
type party struct {
	t    *testing.T
	name string

	write func(args ...string)
	read  func() (any, error)
}

// connect returns a party with a connection of the test's own.
func connect(t *testing.T, name, addr string) (*party, *harness.RawConn) {
	t.Helper()
	conn := harness.Dial(t, addr)
	return &party{
		t: t, name: name,
		write: func(args ...string) { conn.Send(harness.Encode(args...)) },
		read: func() (any, error) {
			raw, err := conn.Read()
			if err != nil {
				return nil, err
			}
			return harness.Decode(raw)
		},
	}, conn
}

// spawn returns a party that is a process, which can be frozen and killed.
func spawn(t *testing.T, name, addr string) (*party, *harness.Agent) {
	t.Helper()
	agent := harness.StartAgent(t, addr)
	var awaited []<-chan harness.Result
	return &party{
		t: t, name: name,
		write: func(args ...string) { awaited = append(awaited, agent.DoAsync(args...)) },
		read: func() (any, error) {
			first := awaited[0]
			awaited = awaited[1:]
			select {
			case r := <-first:
				var refusal harness.ReplyError
				if errors.As(r.Err, &refusal) {
					return refusal, nil
				}
				return r.Reply, r.Err
			case <-time.After(patience):
				return nil, errors.New("no reply")
			}
		},
	}, agent
}

// patience is longer than any wait takes that ends at all.
const patience = 30 * time.Second

// sends sends a command; its reply is for hears or hearsError.
func (p *party) sends(args ...string) {
	p.t.Helper()
	p.write(args...)
}

// hears takes the next reply.
func (p *party) hears(want any) {
	p.t.Helper()
	if got := p.reply(); !reflect.DeepEqual(got, want) {
		p.t.Fatalf("%s hears %v, want %v", p.name, got, want)
	}
}

// hearsError takes the next reply, an error that begins with this word, and returns it.
func (p *party) hearsError(word string) string {
	p.t.Helper()
	got := p.reply()
	if !isError(got, word) {
		p.t.Fatalf("%s hears %v, want -%s", p.name, got, word)
	}
	return fmt.Sprint(got)
}

// does sends a command that is answered with want.
func (p *party) does(want any, args ...string) {
	p.t.Helper()
	p.sends(args...)
	if got := p.reply(); !reflect.DeepEqual(got, want) {
		p.t.Fatalf("%s: %s: %v, want %v", p.name, strings.Join(args, " "), got, want)
	}
}

// fails sends a command that is refused with an error that begins with this word.
func (p *party) fails(word string, args ...string) string {
	p.t.Helper()
	p.sends(args...)
	got := p.reply()
	if !isError(got, word) {
		p.t.Fatalf("%s: %s: %v, want -%s", p.name, strings.Join(args, " "), got, word)
	}
	return fmt.Sprint(got)
}

// reply takes the next reply, whatever it is.
func (p *party) reply() any {
	p.t.Helper()
	got, err := p.read()
	if err != nil {
		p.t.Fatalf("%s waits for a reply: %v", p.name, err)
	}
	return got
}

// isError reports whether a reply is an error that begins with this word.
func isError(reply any, word string) bool {
	refusal, ok := reply.(harness.ReplyError)
	return ok && strings.HasPrefix(string(refusal), word+" ")
}
