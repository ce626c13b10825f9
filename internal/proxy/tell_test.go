package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/event/eventtest"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// story fails the test unless this was told of the agent in the end.
func (a *agent) story(want string) {
	a.Helper()
	a.Until(func() (bool, string) {
		got := a.to.told.Story(a.LocalAddr().String())
		return got == want, "told:\n" + got + "\nwant\n" + want
	})
}

// Until waits until something holds.
func (a *agent) Until(holds func() (bool, string)) {
	a.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		ok, what := holds()
		if ok {
			return
		}
		if time.Now().After(end) {
			a.Fatal(what)
		}
	}
}

// told returns the agent's events of a kind.
func (a *agent) told(kind event.Kind) []event.Event {
	return slices.DeleteFunc(a.to.told.Of(kind), func(e event.Event) bool { return e.Owner.Client != a.LocalAddr().String() })
}

func (a *agent) refused() event.Event {
	a.Helper()
	all := a.told(event.Refuse)
	if len(all) == 0 {
		a.Fatal("no refusal was told")
	}
	return all[len(all)-1]
}

func TestTheStoryOfAStaleWriterIsTold(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("CLIENT SETNAME worker-1", "+OK\r\n")
	a.does("GET agent:s1:k", "$-1\r\n")
	a.lapse("chat", "s1")
	b.does("GET agent:s1:k", "$-1\r\n")
	b.does("SET agent:s1:k 1", "+OK\r\n")
	a.sends("SET agent:s1:k stale")
	a.refusal(`-FENCED rule "chat" session "s1"`)
	a.story("grant, read, break superseded, refuse FENCED superseded")
	b.story("grant, read, commit, release commit")
	mine, its := a.told(event.Grant)[0], b.told(event.Grant)[0]
	e := a.refused()
	if e.Sequence != mine.Sequence || e.Grant != mine.Grant || e.Newest != its.Grant || e.Command != "SET" || e.Owner.Name != "worker-1" {
		t.Errorf("%+v", e)
	}
	if e.Rule != "chat" || e.Mode != "lock" || e.Kept != "connection" || e.Session != "s1" || e.DB != 0 {
		t.Errorf("%+v", e)
	}
	if by := e.Other; by.Client != b.LocalAddr().String() || by.Grant != its.Grant || by.Proxy != "here" || by.Since.IsZero() {
		t.Errorf("superseded by %+v, who was granted %+v", by, its)
	}
	if c := b.told(event.Commit)[0]; c.Grant != its.Grant || c.Seq != 1 || c.Took <= 0 || c.Command != "SET" {
		t.Errorf("%+v", c)
	}
}

func TestWaitingAndHandingOverAreTold(t *testing.T) {
	for name, next := range map[string]struct{ command, reply, story string }{
		"a read waits at the store":  {"GET agent:s1:k", "$1\r\n1\r\n", "wait, grant, read"},
		"a write waits at the proxy": {"SET agent:s1:k 2", "+OK\r\n", "wait, grant, commit, release commit"},
		"so do reads of several":     {"MGET agent:s1:k agent:s2:k", "*2\r\n$1\r\n1\r\n$-1\r\n", "grant, release vain, wait, grant, grant, read, read"},
	} {
		t.Run(name, func(t *testing.T) {
			to := serve(t)
			a, b := dial(t, to), dial(t, to)
			a.does("GET agent:s1:k", "$-1\r\n")
			b.sends(next.command)
			b.Until(func() (bool, string) { return len(b.told(event.Wait)) == 1, "it does not wait" })
			a.does("SET agent:s1:k 1", "+OK\r\n")
			b.gets(next.reply)
			b.story(next.story)
			held := a.told(event.Grant)[0]
			wait := b.told(event.Wait)[0]
			grants := slices.DeleteFunc(b.told(event.Grant), func(e event.Event) bool { return e.Sequence != wait.Sequence })
			if len(grants) != 1 || grants[0].Took <= 0 {
				t.Fatalf("%+v", grants)
			}
			for _, e := range []event.Event{wait, grants[0]} {
				if e.Other.Grant != held.Grant || e.Other.Client != a.LocalAddr().String() || e.Session != "s1" {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

func TestWhoWaitsInVainIsTold(t *testing.T) {
	brief := rule.Rule{Name: "brief", Prefix: "brief:", Session: "brief:<session>:*", Mode: rule.ModeLock, Wait: 50 * time.Millisecond}
	none := rule.Rule{Name: "none", Prefix: "none:", Session: "none:<session>:*", Mode: rule.ModeLock}
	to := serveBy(t, ruled(t, brief, none))
	a, b, c := dial(t, to), dial(t, to), dial(t, to)
	a.does("GET brief:s1:k", "$-1\r\n")
	b.sends("GET brief:s1:k")
	b.refusal("-LOCKED")
	b.story("wait, quit timeout, refuse LOCKED timeout")
	if e := b.refused(); e.Sequence != b.told(event.Wait)[0].Sequence || e.Other.Grant != a.told(event.Grant)[0].Grant {
		t.Errorf("%+v", e)
	}
	a.does("GET none:s1:k", "$-1\r\n")
	c.sends("GET none:s1:k", "SET none:s1:k 1")
	c.refusal("-LOCKED")
	c.refusal("-LOCKED")
	c.story("refuse LOCKED held, refuse LOCKED held")
}

func TestWhoLeavesTheLineIsTold(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("GET agent:s1:k", "$-1\r\n")
	b.sends("GET agent:s1:k")
	b.Until(func() (bool, string) { return len(b.told(event.Wait)) == 1, "it does not wait" })
	_ = b.Close()
	b.story("wait, quit gone")
}

func TestADeadlockIsTold(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("GET agent:s1:k", "$-1\r\n")
	b.does("GET agent:s2:k", "$-1\r\n")
	a.sends("GET agent:s2:k")
	b.sends("GET agent:s1:k")
	told := func(kind event.Kind, reason string) int {
		n := 0
		for _, e := range to.told.Of(kind) {
			if e.Reason == reason {
				n++
			}
		}
		return n
	}
	a.Until(func() (bool, string) { return told(event.Refuse, event.Deadlock) == 1, "nobody gives way" })
	if n := told(event.Quit, event.Deadlock); n != 1 {
		t.Errorf("%d have left a line", n)
	}
	a.Until(func() (bool, string) { return told(event.Release, event.Yielded) == 1, "no hold is given back" })
	a.Until(func() (bool, string) { return len(to.told.Of(event.Grant)) == 3, "the other is not served" })
}

func TestModeObserveTellsWhatItWouldRefuse(t *testing.T) {
	to := serveBy(t, ruled(t, rule.Rule{Name: "seen", Prefix: "seen:", Session: "seen:<session>:*", Mode: rule.ModeObserve}))
	a, b := dial(t, to), dial(t, to)
	a.does("GET seen:s1:k", "$-1\r\n")
	b.does("GET seen:s1:k", "$-1\r\n")
	b.does("SET seen:s1:k 1", "+OK\r\n")
	b.story("read, commit") // it is told behind the reply
	a.does("SET seen:s1:k 2", "+OK\r\n")
	a.story("read, would_refuse changed, commit")
	e := a.told(event.WouldRefuse)[0]
	if e.Other.Client != b.LocalAddr().String() || e.Mode != "observe" || e.Command != "SET" || e.Sequence != a.told(event.Read)[0].Sequence {
		t.Errorf("%+v", e)
	}
}

func TestTransactionsAreToldBySession(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("MGET agent:s1:k agent:s2:k", "*2\r\n$-1\r\n$-1\r\n")
	a.sends("MULTI", "SET agent:s1:k 1", "SET agent:s2:k 1", "SET other 1", "EXEC")
	a.gets("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n+OK\r\n+OK\r\n")
	a.story("grant, grant, read, read, commit, release commit, commit, release commit")
	for _, e := range a.told(event.Commit) {
		if e.Command != "EXEC" {
			t.Errorf("%+v", e)
		}
	}
	b.does("MGET agent:s1:k agent:s2:k", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n")
	a.lapse("chat", "s2")
	a.does("GET agent:s2:k", "$1\r\n1\r\n")
	b.sends("MULTI", "SET agent:s1:k 2", "SET agent:s2:k 2", "EXEC")
	b.gets("+OK\r\n+QUEUED\r\n+QUEUED\r\n")
	b.refusal(`-FENCED rule "chat" session "s2"`)
	e := b.refused()
	if e.Session != "s2" || e.Command != "EXEC" || e.Reason != "superseded" || e.Other.Client != a.LocalAddr().String() || e.Grant != b.told(event.Grant)[1].Grant {
		t.Errorf("%+v", e)
	}
	if n := len(b.told(event.Commit)); n != 0 {
		t.Errorf("%d commits of what was refused", n)
	}
}

// The client's own WATCH says as much as the fence, so it hears nil.
func TestARefusalThatIsHeardAsANilIsTold(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("WATCH agent:s1:k", "+OK\r\n")
	a.does("GET agent:s1:k", "$-1\r\n")
	a.lapse("chat", "s1")
	b.does("GET agent:s1:k", "$-1\r\n")
	b.does("SET agent:s1:k 1", "+OK\r\n")
	a.sends("MULTI", "SET agent:s1:k 2", "EXEC")
	a.gets("+OK\r\n+QUEUED\r\n*-1\r\n")
	e := a.refused()
	if e.Error != "" || e.Reason != "superseded" || e.Other.Client != b.LocalAddr().String() {
		t.Errorf("%+v", e)
	}
}

func TestGrantsThatAreSaidAreTold(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.sends("FENCE.ACQUIRE agent:s1:k")
	line, err := a.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	grant := strings.TrimSpace(line[1:])
	a.does("SET agent:s1:k 1", "+OK\r\n")
	b.does("FENCE.DO "+grant+" SET agent:s1:k 2", "+OK\r\n")
	b.does("FENCE.DO "+grant+" GET agent:s1:k", "$1\r\n2\r\n")
	a.sends("FENCE.RENEW agent:s1:k " + grant)
	a.refusal(":")
	b.does("FENCE.RELEASE agent:s1:k "+grant, ":1\r\n")
	b.sends("FENCE.DO " + grant + " SET agent:s1:k 3")
	b.refusal("-FENCED")
	a.sends("FENCE.RENEW agent:s1:k " + grant)
	a.refusal("-FENCED")
	a.story("grant, commit, renew, refuse FENCED not_newest")
	b.story("commit, read, release released, refuse FENCED not_newest")
	for _, e := range to.told.All() {
		if !e.Apart || e.Rule != "chat" || e.Session != "s1" || e.Grant == 0 || e.Grant != to.told.All()[0].Grant {
			t.Errorf("%s: %+v", eventtest.Line(&e), e)
		}
	}
	if all := a.told(event.Grant); all[0].Command != "FENCE.ACQUIRE" {
		t.Errorf("%+v", all[0])
	}
}

func TestWhatWasDeniedIsTold(t *testing.T) {
	to := serve(t)
	a := dial(t, to)
	a.sends("GET fence-proxy:x")
	a.refusal("-FENCEDENIED")
	if e := a.refused(); e.Error != event.Denied || e.Rule != "" || e.Command != "GET" || e.Sequence != 0 {
		t.Errorf("%+v", e)
	}
}

func TestWhatCanNotBeAskedIsTold(t *testing.T) {
	to := serve(t)
	a := dial(t, to)
	a.does("GET agent:s1:k", "$-1\r\n")
	direct := redis.NewClient(&redis.Options{Addr: to.store})
	defer direct.Close()
	if err := direct.Set(t.Context(), tokenstore.NewRecord(tokenstore.Area{}, "chat", "s2").Keys()[0], "1 1 1 etcd", 0).Err(); err != nil {
		t.Fatal(err)
	}
	a.sends("GET agent:s2:k")
	a.refusal("-FENCEDOWN")
	if e := a.refused(); e.Error != event.Down || e.Rule != "chat" || e.Session != "s2" || e.Command != "GET" {
		t.Errorf("%+v", e)
	}
}
