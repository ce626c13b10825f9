//go:build integration

package soak

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// house is what all guests of a proxy share.
type house struct {
	name     string
	addr     string
	trouble  *trouble
	ledger   *ledger       // of all houses
	stacks   func() string // what the proxy's goroutines do
	leaving  atomic.Bool   // a spell ends: stop as soon as it suits
	commands atomic.Int64  // that were answered
	sessions atomic.Int64  // that were new
}

// guest is one client connection, of one goroutine.
type guest struct {
	*harness.RawConn
	*rand.Rand

	house   *house
	friends []*guest // that came along
	gone    bool     // said all it will say
}

func (h *house) welcome(r *rand.Rand) (*guest, error) {
	conn, err := harness.Connect(h.addr)
	if err != nil {
		return nil, err
	}
	return &guest{RawConn: conn, Rand: r, house: h}, nil
}

// bring welcomes another guest, of the same goroutine, that leaves with this one.
func (g *guest) bring() (*guest, error) {
	friend, err := g.house.welcome(g.Rand)
	if err == nil {
		g.friends = append(g.friends, friend)
	}
	return friend, err
}

// send writes commands without waiting for their replies.
func (g *guest) send(commands ...[]string) error {
	var text strings.Builder
	for _, command := range commands {
		text.WriteString(harness.Encode(command...))
	}
	return g.write(text.String())
}

func (g *guest) write(text string) error {
	_, err := g.Write([]byte(text))
	return err
}

// hear reads n replies. An error reply is an error, unless it says that somebody else has
// the session.
func (g *guest) hear(n int) error {
	for range n {
		if _, err := g.reply(); err != nil {
			return err
		}
	}
	return nil
}

// reply reads one. It is returned beside a [refusal], too.
func (g *guest) reply() ([]byte, error) {
	raw, err := g.Read()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("no reply: %w, while the proxy does\n%s", err, g.house.stacks())
	case err != nil:
		return nil, fmt.Errorf("read a reply: %w", err)
	}
	g.house.commands.Add(1)
	if raw[0] == '-' && !isTaken(raw) {
		return raw, refusal(raw)
	}
	return raw, nil
}

// isTaken reports whether a reply says that somebody else has the session.
func isTaken(raw []byte) bool {
	return strings.HasPrefix(string(raw), "-LOCKED ") || strings.HasPrefix(string(raw), "-FENCED ")
}

// ask says one command and returns its reply.
func (g *guest) ask(command ...string) ([]byte, error) {
	if err := g.send(command); err != nil {
		return nil, err
	}
	return g.reply()
}

// update says a command that adds one to a key, and enters into the ledger what is heard of it.
func (g *guest) update(key string, command ...string) (reply []byte, err error) {
	reply, err = g.ask(command...)
	g.house.ledger.enter(key, fateOf(reply))
	return reply, err
}

// talk sends commands at once and reads their replies. A pipeline must fit into what
// the sockets hold.
func (g *guest) talk(commands ...[]string) error {
	if err := g.send(commands...); err != nil {
		return err
	}
	return g.hear(len(commands))
}

// stay repeats what a guest does n times, or until all leave.
func (g *guest) stay(n int, do func() error) error {
	for range n {
		if g.house.leaving.Load() {
			return nil
		}
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// leave goes in one of the ways in which clients go, if it did not go before. Closing the
// connection without a word is left to the caller.
func (g *guest) leave() error {
	switch {
	case g.gone:
	case g.IntN(3) == 0:
		return g.quit()
	case g.IntN(2) == 0:
		g.vanish()
	}
	return nil
}

// quit waits until the other side has closed the connection.
func (g *guest) quit() error {
	if err := g.send([]string{"QUIT"}); err != nil {
		return err
	}
	var last []byte
	for { // pushes may come before
		raw, err := g.Read()
		switch {
		case errors.Is(err, io.EOF) && string(last) == "+OK\r\n":
			return nil
		case err != nil:
			return fmt.Errorf("quit: %w after %q", err, last)
		}
		last = raw
	}
}

// vanish leaves as a client that crashes.
func (g *guest) vanish() {
	g.gone = true
	g.Reset()
}

// plain is a key that no rule guards.
func (g *guest) plain() string { return fmt.Sprint("plain:", g.IntN(1000)) }

// wanted is a guarded key that many want.
func (g *guest) wanted() string { return fmt.Sprint("ctx:wanted:", g.IntN(6)) }

// fresh is a guarded key whose session nobody has used yet.
func (g *guest) fresh() string {
	return fmt.Sprintf("ctx:fresh:%s:%d", g.house.name, g.house.sessions.Add(1))
}

// counted is a guarded key that is only counted up.
func (g *guest) counted() string { return fmt.Sprint("ctx:count:", g.IntN(6)) }

// number is an integer reply's, or a bulk string's; 0 for a null.
func number(raw []byte) int {
	text := strings.TrimSuffix(string(raw), "\r\n")
	if raw[0] == '$' {
		_, text, _ = strings.Cut(text, "\r\n")
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(text, ":"))
	return n
}

// value is mostly small.
func (g *guest) value() string {
	size := 1 + g.IntN(300)
	if g.IntN(50) == 0 {
		size = 20 << 10
	}
	return strings.Repeat("v", size)
}

// set writes a key that is gone some time later.
func (g *guest) set(key string) []string { return []string{"SET", key, g.value(), "EX", "20"} }
