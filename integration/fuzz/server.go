package fuzz

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// server is a Redis, and a connection straight to it for what is around a script.
type server struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

func connect(addr string) (*server, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &server{addr: addr, conn: conn, in: bufio.NewReader(conn)}
	// What has expired goes when it is looked at, not when the server finds the time.
	_, err = s.ask([]string{"DEBUG", "SET-ACTIVE-EXPIRE", "0"})
	return s, err
}

func (s *server) close() { _ = s.conn.Close() }

// ask sends commands together and returns the replies. An error reply is an error.
func (s *server) ask(commands ...[]string) ([]value, error) {
	var all strings.Builder
	for _, c := range commands {
		all.WriteString(harness.Encode(c...))
	}
	_ = s.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(s.conn, all.String()); err != nil {
		return nil, err
	}
	replies := make([]value, 0, len(commands))
	for _, c := range commands {
		raw, err := harness.ReadReply(s.in)
		if err != nil {
			return nil, err
		}
		v := parse(raw)
		if v.isError() {
			return nil, fmt.Errorf("%.80q: %s", c, v.text)
		}
		replies = append(replies, v)
	}
	return replies, nil
}

// empty makes the server what it was before the first script.
func (s *server) empty() error {
	_, err := s.ask([]string{"FLUSHALL"}, []string{"SCRIPT", "FLUSH"}, []string{"FUNCTION", "FLUSH"}, []string{"ACL", "LOG", "RESET"})
	return err
}

// entry is what is known of one key.
type entry struct {
	typ, digest string
	expires     string // a moment in ms, or -1
	groups      string // of a stream
}

// like reports whether two entries are the same but for a minute of time.
func (e entry) like(o entry) bool {
	return e.typ == o.typ && e.digest == o.digest && e.groups == o.groups &&
		(e.expires == o.expires || near(e.expires, o.expires, 60_000))
}

// data is everything in the server but fence records, by database and key.
func (s *server) data() (map[string]entry, error) {
	all := map[string]entry{}
	info, err := s.ask([]string{"INFO", "keyspace"})
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(info[0].text) {
		db, _, ok := strings.Cut(strings.TrimPrefix(line, "db"), ":")
		if !ok || !strings.HasPrefix(line, "db") {
			continue
		}
		if err := s.database(all, db); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *server) database(all map[string]entry, db string) error {
	listed, err := s.ask([]string{"SELECT", db}, []string{"KEYS", "*"})
	if err != nil {
		return err
	}
	var names []string
	for _, k := range listed[1].elems {
		if !strings.HasPrefix(k.text, "fence-proxy:") {
			names = append(names, k.text)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	commands := [][]string{append([]string{"DEBUG", "DIGEST-VALUE"}, names...)}
	for _, name := range names {
		commands = append(commands, []string{"TYPE", name}, []string{"PEXPIRETIME", name})
	}
	replies, err := s.ask(commands...)
	if err != nil {
		return err
	}
	for i, name := range names {
		e := entry{typ: replies[1+2*i].text, digest: replies[0].elems[i].text, expires: replies[2+2*i].text}
		if e.typ == "stream" {
			groups, err := s.ask([]string{"XINFO", "GROUPS", name})
			if err != nil {
				return err
			}
			e.groups = fmt.Sprint(groups)
		}
		all[fmt.Sprintf("db %s %q", db, name)] = e
	}
	return nil
}
