package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// session is what the client has said of itself and how it wants to be spoken to. Each connection to a node is told.
type session struct {
	proto  int
	tracks bool // invalidations come
	said   []said
}

// said is a command that a new connection is told again.
type said struct {
	about string // a later one about the same takes its place
	raw   []byte
	own   func() (username, password string) // not nil: an AUTH of the proxy's own, whose password may be another by now
}

// remember takes in what the client has said, and Redis has accepted.
func (s *session) remember(about string, raw []byte) {
	s.forget(about)
	s.said = append(s.said, said{about: about, raw: bytes.Clone(raw)})
}

func (s *session) forget(about string) {
	kept := s.said[:0]
	for _, w := range s.said {
		if w.about != about {
			kept = append(kept, w)
		}
	}
	s.said = kept
}

// refusal says that a node does not take what the client has said of itself.
type refusal struct{ line string }

func (r *refusal) Error() string { return strings.TrimRight(r.line[1:], "\r\n") }

// introduce tells a new connection who the client is.
func (s *session) introduce(ctx context.Context, c *conn) error {
	if len(s.said) == 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	var out []byte
	for _, w := range s.said {
		if w.own != nil {
			out = append(out, authAs(w.own())...)
			continue
		}
		out = append(out, w.raw...)
	}
	if _, err := c.Write(out); err != nil {
		return &undialed{c.n, err}
	}
	in := bufio.NewReaderSize(c, 512)
	for range s.said {
		line, err := readReply(in)
		if err != nil {
			return &undialed{c.n, err}
		}
		if line[0] == '-' {
			return &refusal{string(line)}
		}
	}
	return c.SetDeadline(time.Time{})
}

// readReply reads one reply, byte by byte so that nothing behind it is taken.
func readReply(in *bufio.Reader) ([]byte, error) {
	var f resp.Framer
	var frame []byte
	for {
		b, err := in.ReadByte()
		if err != nil {
			return nil, err
		}
		frame = append(frame, b)
		if _, done, err := f.Scan(frame[len(frame)-1:]); done || err != nil {
			return frame, err
		}
	}
}

// about is what a command says of the client, "" if it says nothing that a connection to another node has to know.
func about(cmd *command.Command, args [][]byte) string {
	switch cmd.Name {
	case "auth", "hello":
		return cmd.Name
	case "client|setname", "client|no-evict", "client|no-touch", "client|tracking", "client|capa", "client|import-source":
		return cmd.Name
	case "client|setinfo":
		if len(args) > 2 {
			return cmd.Name + "|" + strings.ToLower(string(args[2]))
		}
	}
	return ""
}

// introduced carries out a command that says something of the client at every node that it has a connection to. Nothing else is
// under way meanwhile.
func (f *front) introduced(cmd *command.Command, what string, r *request) error {
	if what == "client|tracking" && hasWord(r.args, "REDIRECT") {
		f.say([]byte("-ERR fence-proxy: CLIENT TRACKING with REDIRECT is for one Redis: the upstream is a cluster, use RESP3\r\n"), false)
		return nil
	}
	if err := f.drained(); err != nil {
		return err
	}
	home, err := f.atHome()
	if err != nil {
		f.put(&entry{kind: passed, slot: -1, raw: bytes.Clone(r.raw), again: unreached(f.home, err)})
		return f.drained()
	}
	if what == "client|tracking" && hasWord(r.args, "BCAST") {
		for _, n := range f.topology.primaries {
			if _, err := f.at(n); err != nil {
				f.say([]byte(unreached(n, err).line), false)
				return nil
			}
		}
	}
	conns := []*conn{home}
	for _, c := range f.main {
		if c != home && !c.lost.Load() {
			conns = append(conns, c)
		}
	}
	j := newJob(len(conns), nil)
	for i, c := range conns {
		f.put(&entry{kind: part, slot: -1, c: c, raw: r.raw, job: j, at: i})
	}
	j.keeps = true
	if err := f.drained(); err != nil {
		return err
	}
	answer := j.replies[0]
	good := answer[0] != '-'
	for i, c := range conns[1:] {
		if good != (j.replies[i+1][0] != '-') {
			f.leave(c) // it is told again, if need be, when a new one is made
		}
	}
	if good {
		f.mu.Lock()
		f.take(cmd, what, r)
		f.mu.Unlock()
		if cmd.Name == "hello" {
			answer = bytes.Replace(answer, []byte("$4\r\nmode\r\n$7\r\ncluster\r\n"), []byte("$4\r\nmode\r\n$10\r\nstandalone\r\n"), 1)
		}
	}
	f.say(answer, false)
	return nil
}

// take takes in what a command has said. The caller holds mu.
func (f *front) take(cmd *command.Command, what string, r *request) {
	s := &f.session
	switch {
	case cmd.Name == "hello":
		if len(r.args) < 2 {
			return // a question
		}
		s.proto = 2
		if string(r.args[1]) == "3" {
			s.proto = 3
		}
		if hasWord(r.args, "AUTH") {
			s.forget("auth")
		} else if old := s.find("hello"); old != nil {
			// It leaves the login as it is.
			if args := argsOf(old); hasWord(args, "AUTH") {
				s.remember("auth", loginOf(args))
			}
		}
		if hasWord(r.args, "SETNAME") {
			s.forget("client|setname")
		}
	case cmd.Name == "auth":
		if old := s.find("hello"); old != nil && hasWord(argsOf(old), "AUTH") {
			args := argsOf(old)
			s.remember("hello", resp.AppendCommand(nil, args[:2]...))
		}
		// Before HELLO, which may not be said without.
		s.said = append([]said{{what, bytes.Clone(r.raw), f.ownLogin(r.args)}}, without(s.said, what)...)
		return
	case what == "client|tracking":
		s.tracks = len(r.args) > 2 && command.IsWord(r.args[2], "ON")
		f.listen()
		if !s.tracks {
			s.forget(what)
			return
		}
	}
	s.remember(what, r.raw)
}

// ownLogin is the proxy's login if an AUTH that Redis has accepted is of its user, else nil.
func (f *front) ownLogin(args [][]byte) func() (username, password string) {
	own := f.c.options.Login
	if own == nil {
		return nil
	}
	user := "default"
	if len(args) == 3 {
		user = string(args[1])
	}
	if username, password := own(); password == "" || cmp.Or(username, "default") != user {
		return nil
	}
	return own
}

func authAs(username, password string) []byte {
	return resp.AppendCommandStrings(nil, "AUTH", cmp.Or(username, "default"), password)
}

func without(words []said, about string) []said {
	var kept []said
	for _, w := range words {
		if w.about != about {
			kept = append(kept, w)
		}
	}
	return kept
}

func (s *session) find(about string) []byte {
	for _, w := range s.said {
		if w.about == about {
			return w.raw
		}
	}
	return nil
}

// loginOf makes an AUTH of a HELLO's.
func loginOf(args [][]byte) []byte {
	for i, a := range args {
		if command.IsWord(a, "AUTH") && i+2 < len(args) {
			return resp.AppendCommand(nil, []byte("AUTH"), args[i+1], args[i+2])
		}
	}
	return nil
}

// argsOf takes a request apart.
func argsOf(raw []byte) [][]byte {
	req, _, err := resp.NewRequestParser(resp.Limits{MaxBulk: 1 << 40, MaxRequest: 1 << 40}).Next(raw)
	if err != nil {
		return nil
	}
	return req.Args
}

// hasWord reports whether a keyword, in upper case, is among a command's arguments.
func hasWord(args [][]byte, word string) bool {
	for _, a := range args {
		if command.IsWord(a, word) {
			return true
		}
	}
	return false
}

// reset carries out RESET: nothing of what the client has said counts any more.
func (f *front) reset(r *request) error {
	if f.tx != nil {
		if err := f.tell(); err != nil { // of what came before, its client hears
			return err
		}
		f.abandon()
	}
	if err := f.drained(); err != nil {
		return err
	}
	home, err := f.atHome()
	if err != nil {
		f.say([]byte(unreached(f.home, err).line), false)
		return nil
	}
	f.unwatch()
	for _, c := range f.main {
		if c != home {
			f.dismiss(c)
		}
	}
	j := newJob(1, nil)
	j.keeps = true
	f.put(&entry{kind: part, slot: -1, c: home, raw: r.raw, job: j})
	if err := f.drained(); err != nil {
		return err
	}
	f.mu.Lock()
	f.session = session{proto: 2}
	home.subs = subscriptions{}
	f.everywhere.clear()
	f.listen()
	f.mu.Unlock()
	f.say(j.replies[0], false)
	return nil
}

// atHome returns the connection to the node that gets what has no keys.
func (f *front) atHome() (*conn, error) {
	c, err := f.at(f.home)
	if err == nil {
		return c, nil
	}
	for i := range f.topology.primaries {
		if n := f.topology.primaries[i]; n != f.home {
			if c, other := f.at(n); other == nil {
				f.rehome(n)
				return c, nil
			}
		}
	}
	return nil, err
}
