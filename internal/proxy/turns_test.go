package proxy

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// mixed serves rules with different owners, each named for its prefix, in the order in which their sessions are taken. Their waits are
// longer than the tests' patience: nobody goes on because another's time is over.
func mixed(t *testing.T) served {
	t.Helper()
	of := func(name string, owner rule.Owner) rule.Rule {
		return rule.Rule{Name: name, Prefix: name + ":", Mode: rule.ModeLock, Owner: owner, Wait: 2 * patience}
	}
	return serveBy(t, ruled(t, of("all", rule.OwnerProxy), of("auto", rule.OwnerAuto), of("client", rule.OwnerClient),
		of("own", rule.OwnerConnection), of("shared", rule.OwnerProxy)))
}

// atTheTurn waits until somebody waits for the turn on an owner's sequence.
func (a *agent) atTheTurn(o *lock.Owner, key string) {
	a.Helper()
	r := a.to.rules.Match([]byte(key))
	a.Until(func() (bool, string) {
		s := o.Find(tokenstore.Area{}, r, []byte(key))
		return s != nil && s.Waiting(0) > 0, "nobody waits for the turn on " + key
	})
}

// A command in line for one of its sessions may wait for a connection that needs the turn on another one, whose owner they have in
// common.
func TestWhoStandsInLineKeepsNoOtherTurn(t *testing.T) {
	for name, way := range map[string]struct {
		command string // with which b waits for a's own session
		shared  string // the other session
		reply   string // what b hears when a has written both
	}{
		"a write":                             {"MSET own:k b shared:k b", "shared:k", "+OK\r\n"},
		"a write, behind the other one":       {"MSET all:k b own:k b", "all:k", "+OK\r\n"},
		"a read":                              {"MGET own:k shared:k", "shared:k", "*2\r\n$1\r\na\r\n$1\r\na\r\n"},
		"a read that has taken the other one": {"MGET all:k own:k", "all:k", "*2\r\n$1\r\na\r\n$1\r\na\r\n"},
		"a read that finds out that its client pools": {"MGET auto:k own:k", "auto:k", "*2\r\n$1\r\na\r\n$1\r\na\r\n"},
		"a transaction":               {"MULTI|SET shared:k b|SET own:k b|EXEC", "shared:k", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n"},
		"a transaction that reads":    {"MULTI|GET own:k|GET all:k|EXEC", "all:k", "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\na\r\n$1\r\na\r\n"},
		"one under WATCH":             {"WATCH other|MULTI|SET all:k b|SET own:k b|EXEC", "all:k", "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n"},
		"one under WATCH, that reads": {"WATCH other|MULTI|GET all:k|GET own:k|EXEC", "all:k", "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\na\r\n$1\r\na\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := mixed(t)
			a, b := dial(t, to), dial(t, to)
			a.does("GET own:k", "$-1\r\n")
			b.sends(strings.Split(way.command, "|")...)
			b.queued("own", "own:k")
			a.does("SET "+way.shared+" a", "+OK\r\n")
			a.does("SET own:k a", "+OK\r\n")
			b.gets(way.reply)
			want := "$1\r\na\r\n"
			if strings.Contains(way.command, "SET") {
				want = "$1\r\nb\r\n"
			}
			for _, key := range []string{"own:k", way.shared} {
				a.sends("STRLEN free") // what came before is over
				a.gets(":0\r\n")
				b.does("GET "+key, want)
			}
		})
	}
}

// Who waits for the turn of one who stands in line keeps no other turn, either.
func TestWhoWaitsForTheTurnOfOneInLineKeepsNoOther(t *testing.T) {
	for _, command := range []string{"MSET all:k y client:k y", "MGET all:k client:k"} {
		to := mixed(t)
		a, x, y := dial(t, to), dial(t, to), dial(t, to)
		a.does("CLIENT SETNAME another", "+OK\r\n")
		a.does("GET client:k", "$-1\r\n")
		x.sends("SET client:k x")
		x.queued("client", "client:k")
		y.sends(command)
		var owner *lock.Owner
		to.groups.mu.Lock()
		for key, g := range to.groups.byKey {
			if key.name == "" {
				owner = g.locks.Owner()
			}
		}
		to.groups.mu.Unlock()
		y.atTheTurn(owner, "client:k")
		a.does("SET all:k a", "+OK\r\n")
		a.does("SET client:k a", "+OK\r\n")
		x.gets("+OK\r\n")
		if command[1] == 'S' {
			y.gets("+OK\r\n")
		} else {
			y.gets("*2\r\n$1\r\na\r\n$1\r\nx\r\n")
		}
	}
}

// What a command has taken before it stood in line is not given back with it if another command has gone on with it.
func TestWhatOthersGoOnWithIsNotGivenBack(t *testing.T) {
	to := mixed(t)
	holder, a, b := dial(t, to), dial(t, to), dial(t, to)
	holder.does("GET own:k", "$-1\r\n")
	b.sends("MGET all:k own:k")
	b.queued("own", "own:k")
	a.does("GET all:k", "$-1\r\n") // under the hold that b has taken
	held := to.locks.Holds()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.Until(func() (bool, string) {
		to.mu.Lock()
		defer to.mu.Unlock()
		return len(to.clients) == 2, "b is still there"
	})
	if now := to.locks.Holds(); now != held {
		t.Errorf("%d holds, there were %d", now, held)
	}
	a.does("SET all:k a", "+OK\r\n")
	holder.does("SET own:k h", "+OK\r\n")
}

// What it has taken is given back with it if nobody has.
func TestWhatNobodyGoesOnWithIsGivenBack(t *testing.T) {
	to := mixed(t)
	holder, b := dial(t, to), dial(t, to)
	holder.does("GET own:k", "$-1\r\n")
	b.sends("MGET all:k own:k")
	b.queued("own", "own:k")
	s := to.owner.Find(tokenstore.Area{}, to.rules.Match([]byte("all:k")), []byte("all:k"))
	s.Waiting(1) // somebody comes
	b.Until(func() (bool, string) { return s.TryEnter(), "it is kept" })
	s.Waiting(-1)
	s.Leave() // and goes without having done anything
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.Until(func() (bool, string) { return s.State() == lock.Free, "it is held" })
	holder.does("SET own:k h", "+OK\r\n")
}
