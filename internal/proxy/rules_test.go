package proxy

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// chat is the rule under which these tests begin, with edits.
func chat(edits ...func(*rule.Rule)) rule.Rule {
	r := rule.Rule{Name: "chat", Prefix: "agent:", Session: "agent:<session>:*", Mode: rule.ModeLock, Wait: patience}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

// byKey makes each key its own session.
func byKey(r *rule.Rule) { r.Session = "" }

func unguarded(r *rule.Rule) { r.Mode = rule.ModePass }

func impatient(r *rule.Rule) { r.Wait = 0 }

func ofTheProxy(r *rule.Rule) { r.Owner = rule.OwnerProxy }

// becomes revises the rules.
func (s served) becomes(t *testing.T, rules ...rule.Rule) {
	t.Helper()
	s.Revise(ruled(t, rules...), Limits{})
}

// becameLongAgo revises them so that the overlap is over.
func (s served) becameLongAgo(t *testing.T, rules ...rule.Rule) {
	t.Helper()
	s.rules.revise(ruled(t, rules...), time.Now().Add(-overlap))
}

// retire is what is done now and then.
func (s served) retire() { s.rules.retire(time.Now(), s.locks.Open) }

func TestAHoldGoesOnUnderRevisedRules(t *testing.T) {
	for name, next := range map[string][]rule.Rule{
		"with other times":   {chat(impatient)},
		"with other owners":  {chat(ofTheProxy)},
		"in another session": {chat(byKey)},
		"under another name": {chat(func(r *rule.Rule) { r.Name = "talk" })},
		"without a guard":    {chat(unguarded)},
		"without a rule":     nil,
		"by a longer rule":   {chat(), {Name: "vip", Prefix: "agent:s1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			to := serve(t)
			a, b := dial(t, to), dial(t, to)
			a.does("GET agent:s1:k", "$-1\r\n")
			b.sends("GET agent:s1:k") // it waits
			b.queued("chat", "s1")
			to.becomes(t, next...)
			a.does("GET agent:s1:k", "$-1\r\n")
			a.does("SET agent:s1:k 1", "+OK\r\n")
			b.gets("$1\r\n1\r\n")
		})
	}
}

// A connection of the same client that waits for a session which another has read reads none of its others meanwhile.
func TestAWriteIsNotHeldUpByASiblingThatWaitsForIt(t *testing.T) {
	auto := func(r *rule.Rule) { r.Owner = rule.OwnerAuto }
	for name, next := range map[string][]rule.Rule{
		"in another session": {chat(auto, byKey)},
		"by a longer rule":   {chat(auto), {Name: "vip", Prefix: "agent:s1:", Owner: rule.OwnerAuto, Mode: rule.ModeLock, Wait: patience}},
	} {
		t.Run(name, func(t *testing.T) {
			to := serve(t)
			to.becomes(t, chat(auto))
			a, b := dial(t, to), dial(t, to)
			a.does("GET agent:s1:k", "$-1\r\n")
			to.becomes(t, next...)
			b.sends("GET agent:s1:k")
			b.queued("chat", "s1")
			a.does("SET agent:s1:k 1", "+OK\r\n")
			b.gets("$1\r\n1\r\n")
		})
	}
}

func TestARevisedRuleIsThatOfTheSequencesThatBegin(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("GET agent:s1:k", "$-1\r\n")
	to.becomes(t, chat(impatient))
	b.sends("GET agent:s1:k")
	b.refusal(`-LOCKED rule "chat" session "s1" is held by client `)
	a.does("SET agent:s1:k 1", "+OK\r\n")
	to.becomes(t, chat(unguarded))
	a.does("GET agent:s1:k", "$1\r\n1\r\n")
	b.does("GET agent:s1:k", "$1\r\n1\r\n")
	to.becomes(t, chat())
	a.does("GET agent:s1:k", "$1\r\n1\r\n")
	b.sends("GET agent:s1:k")
	a.does("SET agent:s1:k 2", "+OK\r\n")
	b.gets("$1\r\n2\r\n")
}

// What was read under one session and is written under another must not undo what others have written meanwhile.
func TestAWriteThatIsStaleByTheSessionOfItsReadIsRefused(t *testing.T) {
	for name, next := range map[string][]rule.Rule{
		"with other times":   {chat(impatient)},
		"with other owners":  {chat(ofTheProxy)},
		"in another session": {chat(byKey)},
		"under another name": {chat(func(r *rule.Rule) { r.Name = "talk" })},
		"by a longer rule":   {chat(), {Name: "vip", Prefix: "agent:s1:"}},
	} {
		for when, becomes := range map[string]func(*testing.T, served){
			"at once": func(t *testing.T, to served) { t.Helper(); to.becomes(t, next...) },
			"twice": func(t *testing.T, to served) {
				t.Helper()
				to.becomes(t, rule.Rule{Name: "all", Prefix: "a"})
				to.becomes(t, next...)
			},
			"and back": func(t *testing.T, to served) { t.Helper(); to.becomes(t, next...); to.becomes(t, chat()) },
			"long ago": func(t *testing.T, to served) { t.Helper(); to.becameLongAgo(t, next...); to.retire() },
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				to := serve(t)
				to.becomes(t, chat(func(r *rule.Rule) { r.Idle = 1 }))
				a, b := dial(t, to), dial(t, to)
				a.does("GET agent:s1:k", "$-1\r\n")
				read := func(*rule.Rule) bool { return true }
				for to.locks.Holds() > 0 || !to.locks.Open(read) {
					time.Sleep(time.Millisecond)
				}
				becomes(t, to)
				b.does("GET agent:s1:k", "$-1\r\n")
				b.does("SET agent:s1:k b", "+OK\r\n")
				a.sends("SET agent:s1:k stale")
				a.refusal("-FENCED rule ")
				a.does("GET agent:s1:k", "$1\r\nb\r\n") // it was told once
				a.does("SET agent:s1:k a", "+OK\r\n")
			})
		}
	}
}

func TestAWriteThatIsNotStaleIsAppliedThoughItsSessionHasMoved(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("GET agent:s1:k", "$-1\r\n")
	a.does("GET agent:s1:l", "$-1\r\n")
	to.becomes(t, chat(byKey))
	b.does("SET agent:s2:k b", "+OK\r\n")
	a.does("SET agent:s1:k a", "+OK\r\n")
	b.does("GET agent:s1:k", "$1\r\na\r\n") // it takes the old session as well: what a has read there is stale
	b.does("SET agent:s1:k b", "+OK\r\n")
	a.sends("SET agent:s1:l stale")
	a.refusal(`-FENCED rule "chat" session "s1": `)
}

func TestKeysAreInTheirOldSessionsUntilTheOverlapIsOver(t *testing.T) {
	c, _ := connect(t, offline(t), "tcp")
	means := func(words, want string) {
		t.Helper()
		if got, err := c.means(words); err != nil || got != want {
			t.Errorf("%s means %q, %v; want %q", words, got, err, want)
		}
	}
	book, start := c.srv.rules, time.Now()
	next := ruled(t, chat(byKey), rule.Rule{Name: "team", Prefix: "shared:", Owner: rule.OwnerProxy})
	book.revise(next, start)
	means("GET agent:s1:k", "read s1 agent:s1:k")
	means("SET agent:s1:k v", "write s1 agent:s1:k")
	means("MGET agent:s1:k agent:s1:l", "read s1(2 keys) agent:s1:k agent:s1:l")
	means("GET shared:k", "read shared:k") // as ever
	means("GET agent:free:k", "read agent:free:k")

	nothing := func(func(*rule.Rule) bool) bool { return false }
	book.retire(start.Add(overlap-1), nothing)
	means("GET agent:s1:k", "read s1 agent:s1:k")
	old := book.now().former[0].moved[0]
	book.retire(start.Add(overlap), func(of func(*rule.Rule) bool) bool { return of(old) })
	if len(book.now().former) != 1 {
		t.Error("rules are forgotten under which a sequence is open")
	}
	book.retire(start.Add(overlap), func(of func(*rule.Rule) bool) bool { return of(next.Rules()[0]) })
	means("GET agent:s1:k", "read agent:s1:k")
	if len(book.now().former) != 0 {
		t.Error("former rules are kept for nothing")
	}
}

func TestNobodyWaitsForSessionsInAnotherOrderThanBefore(t *testing.T) {
	c, _ := connect(t, offline(t), "tcp")
	team := rule.Rule{Name: "team", Prefix: "shared:", Owner: rule.OwnerProxy}
	talk := chat(func(r *rule.Rule) { r.Name = "talk" })
	for _, step := range []struct {
		next []rule.Rule
		want string
	}{
		{[]rule.Rule{chat(byKey), team}, "read s1 shared:k agent:s1:k"},
		{[]rule.Rule{chat(), team}, "read s1 shared:k agent:s1:k"}, // and back
		{[]rule.Rule{talk, team}, "read s1 shared:k agent:s1:k s1"},
	} {
		c.srv.rules.revise(ruled(t, step.next...), time.Now())
		if got, err := c.means("MGET shared:k agent:s1:k"); err != nil || got != step.want {
			t.Errorf("it means %q, %v; want %q", got, err, step.want)
		}
	}
	c.srv.rules.retire(time.Now().Add(overlap), func(func(*rule.Rule) bool) bool { return false })
	if got, err := c.means("MGET agent:s2:k agent:s1:k agent:s2:l shared:k"); err != nil || got != "read shared:k s1 s2(2 keys)" {
		t.Errorf("after all it means %q, %v", got, err)
	}
}

func TestAnOverlapIsAsLongAsAHoldMayLast(t *testing.T) {
	long := func(r *rule.Rule) { r.MaxHold, r.RecordTTL = 2*overlap, 4*overlap }
	book, start := newRulebook(ruled(t, chat(long))), time.Now()
	book.revise(ruled(t, chat()), start)
	book.revise(ruled(t, chat(byKey)), start)
	if f := book.now().former[0]; f.over(start.Add(2*overlap - 1)) {
		t.Error("it is shorter")
	}
}

func TestRulesThatMoveNoKeyLeaveNothingBehind(t *testing.T) {
	book := newRulebook(ruled(t, chat()))
	for i := range 10 {
		book.revise(ruled(t, chat(func(r *rule.Rule) { r.Wait = time.Duration(i) })), time.Now())
	}
	book.revise(ruled(t, chat(byKey)), time.Now())
	book.revise(ruled(t, chat()), time.Now())
	if formers := book.now().former; len(formers) != 1 || formers[0].moved[0].Session != "" {
		t.Errorf("%d former sets are kept", len(formers))
	}
}

func TestAKeyIsInASessionOfThePastAsLongAsTheLastRulesThatPutItThereSay(t *testing.T) {
	book, start := newRulebook(ruled(t, chat())), time.Now()
	book.revise(ruled(t, chat(), rule.Rule{Name: "vip", Prefix: "vip:"}), start)
	book.revise(ruled(t, chat(), rule.Rule{Name: "vip", Prefix: "v:"}), start)
	book.revise(ruled(t, chat(byKey), rule.Rule{Name: "vip", Prefix: "v:"}), start.Add(overlap))
	for _, f := range book.now().former {
		for _, r := range f.moved {
			if r.Name == "chat" && f.over(start.Add(overlap)) {
				t.Error("its time is over before the others' has begun")
			}
		}
	}
	if n := len(book.now().former); n != 2 {
		t.Errorf("%d former sets are kept, want one for each rule that moved", n)
	}
}

func TestATransactionIsGuardedByTheRulesOfItsEnd(t *testing.T) {
	for name, next := range map[string][]rule.Rule{
		"that guard as before":     {chat(impatient)},
		"that guard other session": {chat(byKey)},
		"that guard no more":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			to := serve(t)
			a, b := dial(t, to), dial(t, to)
			a.does("MULTI", "+OK\r\n")
			a.does("SET agent:s1:k a", "+QUEUED\r\n")
			to.becameLongAgo(t, next...)
			to.retire()
			b.does("GET agent:s1:k", "$-1\r\n")
			a.sends("EXEC")
			if len(next) == 0 {
				a.gets("*1\r\n+OK\r\n")
				return
			}
			if next[0].Wait == 0 {
				a.refusal(`-LOCKED rule "chat" session "s1" `)
				return
			}
			b.does("SET agent:s1:k b", "+OK\r\n") // for which it has waited
			a.gets("*1\r\n+OK\r\n")
			b.does("GET agent:s1:k", "$1\r\na\r\n")
		})
	}
}

func TestATransactionMayBeGuardedByRulesThatComeAfterItsCommands(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.does("MULTI", "+OK\r\n")
	a.does("SET new:k a", "+QUEUED\r\n")
	a.does("SELECT 1", "+QUEUED\r\n")
	to.becomes(t, chat(), rule.Rule{Name: "new", Prefix: "new:", Mode: rule.ModeLock, Wait: patience})
	a.sends("EXEC")
	a.refusal(`-FENCEDENIED rule "new" session "new:k": a transaction that is guarded can't reach into another database`)
	a.does("MULTI", "+OK\r\n")
	a.does("SET newer:k a", "+QUEUED\r\n")
	to.becomes(t, chat(), rule.Rule{Name: "newer", Prefix: "newer:", Mode: rule.ModeLock, Wait: patience})
	b.does("GET newer:k", "$-1\r\n")
	a.sends("EXEC")
	b.does("SET newer:k b", "+OK\r\n")
	a.gets("*1\r\n+OK\r\n")
}

func TestACommandThatBlocksIsGuardedByTheRulesThatCountWhenItEnds(t *testing.T) {
	to := serve(t)
	a, b := dial(t, to), dial(t, to)
	a.sends("BLPOP agent:s1:k 0")
	for to.asleep() == 0 {
		time.Sleep(time.Millisecond)
	}
	to.becameLongAgo(t, chat(byKey))
	to.retire()
	b.does("LRANGE agent:s1:k 0 -1", "*0\r\n") // it holds the new session
	direct := redis.NewClient(&redis.Options{Addr: to.store})
	defer direct.Close()
	if err := direct.RPush(t.Context(), "agent:s1:k", "v").Err(); err != nil {
		t.Fatal(err)
	}
	for range 50 { // longer than until the next question
		b.does("LRANGE agent:s1:k 0 -1", "*1\r\n$1\r\nv\r\n")
		time.Sleep(askMost / 10)
	}
	b.does("SET agent:s1:l b", "+OK\r\n") // of another session now
	b.does("LSET agent:s1:k 0 w", "+OK\r\n")
	a.gets("*2\r\n$10\r\nagent:s1:k\r\n$1\r\nw\r\n")
}

// asleep is for how many keys blocked clients wait.
func (s served) asleep() int {
	s.blocked.mu.Lock()
	defer s.blocked.mu.Unlock()
	return len(s.blocked.lines)
}

func TestACommandThatBlocksGoesOnAsItWasWhenItsKeyIsNotGuardedAnyMore(t *testing.T) {
	c, _ := connect(t, offline(t), "tcp")
	args := call("BLPOP agent:s1:k agent:s2:k 0")
	cmd, _ := c.srv.commands.table.Lookup(args)
	p, err := c.plan(cmd, args)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		next []rule.Rule
		want string
	}{
		{nil, "atomic s1 s2"},
		{[]rule.Rule{chat(byKey)}, "atomic agent:s1:k agent:s2:k"},
		{nil, "atomic agent:s1:k agent:s2:k"},
	} {
		c.srv.rules.revise(ruled(t, tc.next...), time.Now().Add(-overlap))
		if p = c.planAnew(p, cmd, args); meaning(p) != tc.want || p.rules != c.srv.rules.now() {
			t.Errorf("it means %q, want %q", meaning(p), tc.want)
		}
	}
}

func TestWhatIsReadAgainAfterTheOverlapMayBeWritten(t *testing.T) {
	to := serve(t)
	to.becameLongAgo(t, chat(func(r *rule.Rule) { r.Mode = rule.ModeFence }))
	a, b := dial(t, to), dial(t, to)
	a.does("MGET agent:s1:k agent:s1:l", "*2\r\n$-1\r\n$-1\r\n")
	b.does("GET agent:s1:k", "$-1\r\n")
	b.does("GET agent:s1:l", "$-1\r\n")
	to.becameLongAgo(t, chat(byKey))
	to.retire()
	a.does("MGET agent:s1:k agent:s1:l", "*2\r\n$-1\r\n$-1\r\n")
	a.does("MSET agent:s1:k a agent:s1:l a", "+OK\r\n")
	b.does("GET agent:s1:k", "$1\r\na\r\n")
	b.sends("SET agent:s1:l b") // of which it has read an old value
	b.refusal(`-FENCED rule "chat" session "s1": nothing was written: the rules were changed since the session was read`)
	b.does("GET agent:s1:l", "$1\r\na\r\n")
	b.does("SET agent:s1:l b", "+OK\r\n")
	b.does("SET agent:s1:k b", "+OK\r\n")
	to.retire()
	if n := len(to.rules.now().former); n != 0 {
		t.Errorf("%d former sets are kept for nothing", n)
	}
}
