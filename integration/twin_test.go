//go:build integration

package integration

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// twins are two servers on which the same is done: a Redis straight, and another behind a proxy.
// Whoever speaks to them has a connection to each.
type twins struct {
	t                *testing.T
	straight, behind *harness.Redis
	lacks            *lacking
	proxy            *harness.Proxy
}

func startTwins(t *testing.T, config string, options ...harness.RedisOption) *twins {
	t.Helper()
	straight, behind := harness.StartRedis(t, options...), harness.StartRedis(t, options...)
	return &twins{t, straight, behind, newLacking(t, straight), harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: config})}
}

// twin is one who speaks to both.
type twin struct {
	t              *testing.T
	name           string
	direct, client *harness.RawConn
}

// meet returns one who speaks this protocol. The one named D is not behind the proxy.
func (w *twins) meet(t *testing.T, name, protocol string) *twin {
	t.Helper()
	p := &twin{t: t, name: name, direct: harness.Dial(t, w.straight.Addr), client: harness.Dial(t, w.proxy.Addr)}
	if name == "D" {
		p.client = harness.Dial(t, w.behind.Addr)
	}
	if protocol == "3" {
		p.direct.Do("HELLO", "3")
		p.client.Do("HELLO", "3")
	}
	return p
}

// says sends commands to both, and hears that many replies and messages, the same from both.
func (p *twin) says(n int, commands ...[]string) {
	p.t.Helper()
	var text strings.Builder
	for _, c := range commands {
		text.WriteString(harness.Encode(c...))
	}
	p.direct.Send(text.String())
	p.client.Send(text.String())
	p.hears(n, commands)
}

// hears reads that many replies and messages.
func (p *twin) hears(n int, after any) {
	p.t.Helper()
	for i := range n {
		want := alike(p.direct.ReadReply())
		got, err := p.client.Read()
		if err != nil || alike(got) != want {
			p.t.Fatalf("%s, after %q, reply %d of %d: %q (%v), want %q", p.name, after, i+1, n, alike(got), err, want)
		}
	}
}

// plays reads lines "name: COMMAND args => n": who says what, and how many replies and messages are
// heard then. Without a command, they are only heard. A line that begins with "#" is a comment.
// The connections are made when they are first named, and speak this protocol.
func (w *twins) plays(t *testing.T, protocol, script string) map[string]*twin {
	t.Helper()
	people := map[string]*twin{}
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, ":")
		said, heard, ok := strings.Cut(rest, "=>")
		n, err := strconv.Atoi(strings.TrimSpace(heard))
		if !ok || err != nil {
			t.Fatalf("the line %q", line)
		}
		p := people[name]
		if p == nil {
			p = w.meet(t, name, protocol)
			people[name] = p
		}
		p.t = t
		commands := [][]string{}
		for _, c := range table(t, strings.ReplaceAll(said, " ; ", "\n")) {
			commands = append(commands, c.args)
		}
		if w.lacks.any(t, commands) {
			continue
		}
		p.says(n, commands...)
	}
	return people
}

// pipelined is what one name says in such a script, in one go, whole or in pieces; all is heard at
// the end.
func (w *twins) pipelined(t *testing.T, protocol, script string, pieces bool) {
	t.Helper()
	p := w.meet(t, "all at once", protocol)
	var text strings.Builder
	replies := 0
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		_, rest, _ := strings.Cut(line, ":")
		said, heard, _ := strings.Cut(rest, "=>")
		n, err := strconv.Atoi(strings.TrimSpace(heard))
		if err != nil {
			t.Fatalf("the line %q", line)
		}
		var sent strings.Builder
		var commands [][]string
		for _, c := range table(t, strings.ReplaceAll(said, " ; ", "\n")) {
			commands = append(commands, c.args)
			sent.WriteString(harness.Encode(c.args...))
		}
		if !w.lacks.any(t, commands) {
			text.WriteString(sent.String())
			replies += n
		}
	}
	p.direct.Send(text.String())
	if pieces {
		go sendInPieces(p.client, text.String())
	} else {
		p.client.Send(text.String())
	}
	p.hears(replies, "all of it")
}

// one plays a script of one person in all ways.
func (w *twins) one(t *testing.T, protocol, script string) {
	t.Helper()
	anew := func() { empty(t, w.straight); empty(t, w.behind) }
	t.Run("RESP"+protocol+" one by one", func(t *testing.T) { anew(); w.plays(t, protocol, script) })
	t.Run("RESP"+protocol+" pipelined", func(t *testing.T) { anew(); w.pipelined(t, protocol, script, false) })
	t.Run("RESP"+protocol+" in pieces", func(t *testing.T) { anew(); w.pipelined(t, protocol, script, true) })
}

var (
	monitored    = regexp.MustCompile(`^\+\d+\.\d{6} \[(\d+) [^\]]*\]`)
	identified   = regexp.MustCompile(`(\$2\r\nid\r\n):\d+`)
	unsubscribed = regexp.MustCompile(`(unsubscribe\r\n\$\d\r\n)[\w*]+\r\n`)
)

// alike is a reply without what differs from server to server: the time and address in a line of
// MONITOR, a connection's id in that of HELLO, and the order in which a client's channels are left.
func alike(reply []byte) string {
	text := monitored.ReplaceAllString(string(reply), "+(time) [$1 (address)]")
	text = identified.ReplaceAllString(text, "$1(id)")
	return unsubscribed.ReplaceAllString(text, "$1(channel)\r\n")
}
