package fuzz

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// player plays a script over one connection.
type player struct {
	conn     net.Conn
	in       *bufio.Reader
	patience time.Duration // how long a reply may take
}

func play(addr string, patience time.Duration) (*player, error) {
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return nil, err
	}
	return &player{conn: conn, in: bufio.NewReader(conn), patience: patience}, nil
}

func (p *player) close() { _ = p.conn.Close() }

// perform sends the script's steps and returns a reply for each. An error comes with the replies
// before it.
func (p *player) perform(s *Script) (replies [][]byte, err error) {
	_ = p.conn.SetDeadline(time.Now().Add(p.patience))
	if s.Delivery == Single {
		for i := range s.Steps {
			if _, err := io.WriteString(p.conn, s.Steps[i].bytes()); err != nil {
				return replies, err
			}
			frame, err := harness.ReadReply(p.in)
			if err != nil {
				return replies, fmt.Errorf("no reply to %v: %w", &s.Steps[i], err)
			}
			replies = append(replies, frame)
		}
		return replies, nil
	}
	sent := p.send(s, "")
	for i := range s.Steps {
		frame, err := harness.ReadReply(p.in)
		if err != nil {
			p.close() // so that the sender ends
			return replies, errors.Join(fmt.Errorf("no reply to %v: %w", &s.Steps[i], err), <-sent)
		}
		replies = append(replies, frame)
	}
	return replies, <-sent
}

// finish says QUIT, or sends the script's tail, and returns what still comes until the connection
// ends.
func (p *player) finish(s *Script) ([][]byte, error) {
	if s.Tail != "" {
		return p.garble(s)
	}
	_ = p.conn.SetDeadline(time.Now().Add(p.patience))
	if _, err := io.WriteString(p.conn, quit); err != nil {
		return nil, err
	}
	return p.rest()
}

// listen sends the script's steps, RESET and QUIT, and returns everything that comes until the
// connection ends, however many frames that are.
func (p *player) listen(s *Script) ([][]byte, error) {
	_ = p.conn.SetDeadline(time.Now().Add(p.patience))
	sent := p.send(s, reset+quit) // without replies QUIT would not close the connection
	frames, err := p.rest()
	if err != nil {
		p.close()
	}
	return frames, errors.Join(err, <-sent)
}

// garble sends a tail that is no command, in place of QUIT, and returns what comes until the server
// closes the connection.
func (p *player) garble(s *Script) ([][]byte, error) {
	_ = p.conn.SetDeadline(time.Now().Add(p.patience))
	sent := p.send(&Script{Delivery: s.Delivery, cuts: s.cuts}, s.Tail)
	frames, err := p.rest()
	p.close()
	if early := <-sent; early != nil { // the server may have closed before it had all
		err = nil
	}
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return frames, err
}

// rest reads to the end.
func (p *player) rest() (frames [][]byte, err error) {
	for {
		frame, err := harness.ReadReply(p.in)
		switch {
		case errors.Is(err, io.EOF) && len(frame) == 0:
			return frames, nil
		case err != nil:
			return frames, fmt.Errorf("at the end: %w", err)
		}
		frames = append(frames, frame)
	}
}

const (
	reset = "*1\r\n$5\r\nRESET\r\n"
	quit  = "*1\r\n$4\r\nQUIT\r\n"
)

// send sends the steps in the background, at once or in small pieces.
func (p *player) send(s *Script, end string) <-chan error {
	var all strings.Builder
	for i := range s.Steps {
		all.WriteString(s.Steps[i].bytes())
	}
	all.WriteString(end)
	rng := rand.New(rand.NewPCG(s.cuts, 1))
	sent := make(chan error, 1)
	go func() {
		rest := all.String()
		for rest != "" {
			n := len(rest)
			if s.Delivery == Cut {
				n = min(n, 1+rng.IntN(1+rng.IntN(400)))
			}
			if _, err := io.WriteString(p.conn, rest[:n]); err != nil {
				sent <- err
				return
			}
			rest = rest[n:]
		}
		sent <- nil
	}()
	return sent
}
