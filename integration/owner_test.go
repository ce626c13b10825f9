//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// startOwners starts a proxy with one rule, which says these things.
func startOwners(t *testing.T, options ...string) (*harness.Redis, *harness.Proxy) {
	t.Helper()
	server := harness.StartRedis(t)
	return server, harness.StartProxy(t, harness.ProxyOptions{Redis: server, Admin: true, ConfigYAML: guarding(options...)})
}

// owners connects parties with these names in messages.
func owners(t *testing.T, proxy *harness.Proxy, names ...string) []*party {
	t.Helper()
	all := make([]*party, len(names))
	for i, name := range names {
		all[i], _ = connect(t, name, proxy.Addr)
	}
	return all
}

// Case 15.
func TestTheWriteOfAPooledClientComesOverAnotherConnectionThanItsRead(t *testing.T) {
	t.Parallel()
	_, proxy := startOwners(t, "owner: auto", "wait: 60s") // the write would wait that long for the read's hold
	c := owners(t, proxy, "c1", "c2", "c3")
	c[1].does(nil, "GET", "ctx:k")
	c[0].does("OK", "SET", "ctx:k", "1", "EX", "86400")
	c[2].does("1", "GET", "ctx:k")
	c[1].does(int64(1), "EXPIRE", "ctx:k", "86400")
	proxy.WaitLog(t, "client pools its connections")
	if n := proxy.Metric(`fence_proxy_clients_pooling_total{rule="ctx"}`); n != 1 {
		t.Errorf("%v clients pool", n)
	}
	c[0].does("OK", "SET", "ctx:k", "2") // what c3 has read
	c[1].does("2", "GET", "ctx:k")
	c[0].does("OK", "SET", "ctx:k", "3")
	if n := strings.Count(proxy.Logs(), "client pools"); n != 1 {
		t.Errorf("it is logged %d times", n)
	}
}

func TestOfTwoTasksOfAClientTheSecondToWriteIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		rule  string
		reads [2]int // over which connection
		write [2]int
	}{
		{"on one connection", "owner: auto", [2]int{0, 0}, [2]int{0, 0}},
		{"on one connection, of a client", "owner: client", [2]int{0, 0}, [2]int{0, 0}},
		{"over two", "owner: client", [2]int{0, 1}, [2]int{0, 1}},
		{"over two, crosswise", "owner: client", [2]int{0, 1}, [2]int{1, 0}},
		{"that read over one and write over others", "owner: auto", [2]int{0, 0}, [2]int{1, 2}},
		{"over two, of a proxy", "owner: proxy", [2]int{0, 1}, [2]int{0, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, proxy := startOwners(t, "wait: 60s", tc.rule)
			c := owners(t, proxy, "c1", "c2", "c3")
			c[tc.reads[0]].does(nil, "GET", "ctx:k")
			c[tc.reads[1]].does(nil, "GET", "ctx:k")
			c[tc.write[0]].does("OK", "SET", "ctx:k", "a")
			refusal := c[tc.write[1]].fails("FENCED", "SET", "ctx:k", "b")
			if !strings.Contains(refusal, "an earlier write of the same owner used up the read") {
				t.Error(refusal)
			}
			c[tc.write[1]].does("a", "GET", "ctx:k")
			c[tc.write[1]].does("OK", "SET", "ctx:k", "a, b")
		})
	}
}

func TestTwoTasksOnOneConnectionAreToldApartInOneSegment(t *testing.T) {
	t.Parallel()
	_, proxy := startOwners(t, "owner: auto")
	c, conn := connect(t, "c1", proxy.Addr)
	conn.Send(harness.Encode("GET", "ctx:k") + harness.Encode("GET", "ctx:k"))
	c.hears(nil)
	c.hears(nil)
	conn.Send(harness.Encode("SET", "ctx:k", "a") + harness.Encode("SET", "ctx:k", "b"))
	c.hears("OK")
	c.hearsError("FENCED")
	c.does("a", "GET", "ctx:k")
}

// A third task that has read after the first write can't be told from the second, which is stale.
func TestAWriteThatMayBeAStaleTasksIsRefused(t *testing.T) {
	t.Parallel()
	_, proxy := startOwners(t, "owner: client")
	c := owners(t, proxy, "c1", "c2", "c3")
	c[0].does(nil, "GET", "ctx:k")
	c[1].does(nil, "GET", "ctx:k")
	c[0].does("OK", "SET", "ctx:k", "a")
	c[2].does("a", "GET", "ctx:k")
	refusal := c[1].fails("FENCED", "SET", "ctx:k", "b")
	if !strings.Contains(refusal, "can't be told") {
		t.Error(refusal)
	}
	c[2].fails("FENCED", "SET", "ctx:k", "c") // and so may this be
	c[2].does("a", "GET", "ctx:k")
	c[2].does("OK", "SET", "ctx:k", "a, c") // nobody is left who could be stale
}

func TestATaskThatReadsInTwoWaysIsOneTask(t *testing.T) {
	t.Parallel()
	_, proxy := startOwners(t, "owner: client")
	c := owners(t, proxy, "c1", "c2", "c3")
	for turn := range 3 {
		c[0].gets("EXISTS", "ctx:k")
		c[1].gets("GET", "ctx:k")
		c[2].does("OK", "SET", "ctx:k", fmt.Sprint(turn))
	}
}

// gets sends a command and takes its reply, whatever it is but an error.
func (p *party) gets(args ...string) {
	p.t.Helper()
	p.sends(args...)
	if got := p.reply(); isError(got, "FENCED") || isError(got, "LOCKED") {
		p.t.Fatalf("%s: %v", args, got)
	}
}

// A sibling's read waits in line when the client turns out to pool: the write that gives the session back must not
// wait for it.
func TestAReadInLineAtTheMomentOfTheChangeGoesOn(t *testing.T) {
	t.Parallel()
	server, proxy := startOwners(t, "owner: auto", "wait: 60s")
	record := recordOf(t, server, "ctx:k")
	c := owners(t, proxy, "c1", "c2", "c3", "c4")
	c[0].does(nil, "GET", "ctx:k")
	c[1].sends("GET", "ctx:k")
	record.hasWaiters(1)
	c[2].sends("GET", "ctx:k")
	record.hasWaiters(2)
	c[3].does("OK", "SET", "ctx:k", "first") // c1's task
	c[1].hears("first")
	c[0].does("OK", "SET", "ctx:k", "second") // c2's
	c[2].hears("second")
	c[0].does("OK", "SET", "ctx:k", "third") // c3's
	c[3].does("third", "GET", "ctx:k")
}

// Case 15.
func TestAClientMayMakeAConnectionForEachCommand(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"client", "auto"} {
		t.Run("owner "+owner, func(t *testing.T) {
			server, proxy := startOwners(t, "owner: "+owner)
			other := harness.StartProxy(t, harness.ProxyOptions{Name: "other", Redis: server, ConfigYAML: guarding("wait: 60s")})
			c1, conn := connect(t, "c1", proxy.Addr)
			c1.does(nil, "GET", "ctx:k")
			_ = conn.Close()
			b, _ := connect(t, "b", other.Addr)
			b.does(nil, "GET", "ctx:k") // the hold went with the connection
			b.does("OK", "SET", "ctx:k", "b")
			c2, _ := connect(t, "c2", proxy.Addr)
			c2.fails("FENCED", "SET", "ctx:k", "c")
		})
		t.Run("owner "+owner+", undisturbed", func(t *testing.T) {
			server, proxy := startOwners(t, "owner: "+owner)
			for turn := range 3 {
				c1, conn := connect(t, "c1", proxy.Addr)
				c1.gets("GET", "ctx:k")
				_ = conn.Close()
				recordOf(t, server, "ctx:k").becomesFree()
				c2, conn := connect(t, "c2", proxy.Addr)
				c2.does("OK", "SET", "ctx:k", fmt.Sprint(turn))
				_ = conn.Close()
			}
		})
	}
}

// A client that has timed out sends its read again over a new connection.
func TestARepeatedReadNeitherStacksUpNorRefusesItself(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"auto", "client"} {
		t.Run(owner, func(t *testing.T) {
			server, proxy := startOwners(t, "owner: "+owner, "wait: 60s")
			other := harness.StartProxy(t, harness.ProxyOptions{Name: "other", Redis: server, ConfigYAML: guarding("wait: 60s")})
			record := recordOf(t, server, "ctx:k")
			holder, _ := connect(t, "holder", other.Addr)
			holder.does(nil, "GET", "ctx:k")
			for range 3 {
				c, conn := connect(t, "timed out", proxy.Addr)
				c.sends("GET", "ctx:k")
				record.hasWaiters(1)
				_ = conn.Close()
				record.hasWaiters(0)
			}
			c, _ := connect(t, "at last", proxy.Addr)
			c.sends("GET", "ctx:k")
			record.hasWaiters(1)
			holder.does("OK", "SET", "ctx:k", "1")
			c.hears("1")
			c.does("OK", "SET", "ctx:k", "2")
			holder.does("2", "GET", "ctx:k")
		})
	}
}

func TestWhatTellsClientsApart(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		rule string
		a, b []string // what each says first
		one  bool
	}{
		{"nothing", "client_by: address", nil, nil, true},
		{"their library", "client_by: address", []string{"CLIENT", "SETINFO", "LIB-NAME", "one"}, []string{"CLIENT", "SETINFO", "LIB-NAME", "other"}, false},
		{"the same library", "client_by: address", []string{"CLIENT", "SETINFO", "LIB-NAME", "one"}, []string{"CLIENT", "SETINFO", "LIB-NAME", "one"}, true},
		{"their user", "client_by: address", []string{"AUTH", "one", "pw"}, []string{"AUTH", "other", "pw"}, false},
		{"the same user", "client_by: address", []string{"AUTH", "one", "pw"}, []string{"HELLO", "3", "AUTH", "one", "pw"}, true},
		{"their names", "client_by: name", []string{"CLIENT", "SETNAME", "one"}, []string{"CLIENT", "SETNAME", "other"}, false},
		{
			"the same name, but for all else", "client_by: name",
			[]string{"HELLO", "2", "AUTH", "one", "pw", "SETNAME", "n"},
			[]string{"HELLO", "3", "AUTH", "other", "pw", "SETNAME", "n"},
			true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, proxy := startOwners(t, "owner: client", "wait: 0s", tc.rule)
			for _, user := range []string{"one", "other"} {
				allow(t, server, user, "+@all ~* &*")
			}
			c := owners(t, proxy, "a", "b")
			for i, says := range [][]string{tc.a, tc.b} {
				if says != nil {
					c[i].sends(says...)
					c[i].reply()
				}
			}
			c[0].does(nil, "GET", "ctx:k")
			if tc.one {
				c[1].does("OK", "SET", "ctx:k", "1")
				return
			}
			refusal := c[1].fails("LOCKED", "SET", "ctx:k", "1")
			if !strings.Contains(refusal, "all connections") {
				t.Errorf("the message does not say what kind of owner it is: %s", refusal)
			}
		})
	}
}

// Case 32.
func TestReadersOnlyLook(t *testing.T) {
	t.Parallel()
	server, proxy := startOwners(t, "owner: auto", "wait: 0s", "readers: [dashboard, watcher]")
	allow(t, server, "watcher", "+@all ~* &*")
	c := owners(t, proxy, "agent", "by name", "by user", "another")
	c[1].does("OK", "CLIENT", "SETNAME", "dashboard")
	c[2].does("OK", "AUTH", "watcher", "pw")
	c[0].does(nil, "GET", "ctx:k")
	for _, reader := range c[1:3] {
		reader.does(nil, "GET", "ctx:k") // it does not wait
		reader.does([]any{nil, nil}, "MGET", "ctx:k", "other")
		reader.fails("LOCKED", "SET", "ctx:k", "r") // its writes do
		reader.fails("FENCEDENIED", "GET", "fence-proxy:{ctx:ctx:k}:t")
	}
	c[0].does("OK", "SET", "ctx:k", "1")
	for _, reader := range c[1:3] {
		reader.does("1", "GET", "ctx:k")
		if knows(t, server, "getex") {
			reader.does("1", "GETEX", "ctx:k", "EX", "100")
		}
	}
	c[3].does("1", "GET", "ctx:k") // nobody holds it
	c[3].does("OK", "SET", "ctx:k", "2")
	c[1].does("OK", "SET", "ctx:k", "blind") // it has read "1" before
}

// A write that was sent before a read was answered does not come from that read: it is the other task's.
func TestAWriteBehindAReadThatIsNotAnsweredYetIsAnotherTasks(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"lock", "fence", "auto"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			_, proxy := startOwners(t, "mode: "+mode)
			c, conn := connect(t, "c1", proxy.Addr)
			twice := harness.Encode("GET", "ctx:k") + harness.Encode("GET", "ctx:k")
			for range 3 {
				conn.Send(twice) // so they are known to be two
				c.reply()
				c.reply()
				c.does("OK", "SET", "ctx:k", "a")
				conn.Send(harness.Encode("GET", "ctx:k") + harness.Encode("SET", "ctx:k", "stale"))
				c.hears("a")
				c.hearsError("FENCED")
				c.does("OK", "SET", "ctx:k", "a, b") // there is no doubt about this one
			}
		})
	}
}
