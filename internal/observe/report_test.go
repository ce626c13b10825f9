package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// compiled are the proposed rules as the proxy would use them.
func compiled(t *testing.T, r *Report) *rule.Set {
	t.Helper()
	var rules []*rule.Rule
	for i := range r.Rules {
		proposed := &r.Rules[i]
		compiled, err := rule.New(rule.Rule{
			Name: proposed.Name, Prefix: proposed.Prefix, Session: proposed.Session, Mode: proposed.Mode, Owner: proposed.Owner,
			WritesPerRead: proposed.WritesPerRead, MaxHold: time.Duration(proposed.MaxHold), Idle: time.Duration(proposed.Idle),
		})
		if err != nil {
			t.Fatalf("%+v: %v", proposed, err)
		}
		rules = append(rules, compiled)
	}
	set, err := rule.NewSet(rules)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func cycle(key string) string { return "a GET " + key + "; a SET " + key + " 1" }

func TestProposedRulesGuardWhatIsReadAndWritten(t *testing.T) {
	for name, test := range map[string]struct {
		story string
		want  []string // prefix, session, what else is not the default
	}{
		"nothing":                {"a GET k; b SET k 1", nil},
		"one fixed key":          {cycle("config"), []string{"config | "}},
		"sessions":               {cycle("chat:1") + "; " + cycle("chat:2"), []string{"chat: | chat:<session>"}},
		"several keys a session": {cycle("c:1:log") + "; " + cycle("c:1:state"), []string{"c: | c:<session>:*"}},
		"one that goes on":       {cycle("c:1") + "; " + cycle("c:1:state"), []string{"c: | "}},
		"users and sessions":     {cycle("h:1:2"), []string{"h: | h:<session>:<part2>"}},
		"a hash tag":             {cycle("{7}:cart"), []string{"{ | {<session>}:cart"}},
		"a prefix in a word":     {cycle("session-7"), []string{"session- | session-<session>"}},
		"no prefix":              {cycle("1234"), []string{" | <session>"}},
		"signs":                  {cycle("a*b:<7>:\\"), []string{"a*b:<7>:\\ | "}},
		"signs and sessions":     {cycle("a*b:7:<x"), []string{`a*b: | a\*b:<session>:\<x`}},
		"an exception": {
			cycle("agent:ctx:1") + "; a GET agent:ctx:shared:x; a INCR agent:ctx:count:1 -> :1; a GET other:1",
			[]string{"agent:ctx: | agent:ctx:<session>", "agent:ctx:count: | pass", "agent:ctx:shared: | pass"},
		},
		"no exception of what is guarded": {cycle("a:b:1") + "; a GET a:2", []string{"a:b: | a:b:<session>"}},
		"no exception inside a name": {
			cycle("a:al") + "; " + cycle("a:bo") + "; " + cycle("a:cy") + "; " + cycle("a:dino") + "; a GET a:di", []string{"a: | a:<session>"},
		},
		"many writes":  {cycle("k:1") + "; a SET k:1 2; a SET k:1 3", []string{"k: | k:<session> many"}},
		"a few writes": {"a GET k:1; a GET k:2; a GET k:3; " + cycle("k:1"), []string{"k: | k:<session> auto"}},
		"a pool":       {"a/1 GET k:1; a/2 SET k:1 2", []string{"k: | k:<session>"}},
	} {
		p := newPlay(t)
		p.run(strings.Split(test.story, "; ")...)
		r := p.o.Report()
		compiled(t, r)
		var got []string
		for _, r := range r.Rules {
			line := r.Prefix + " | " + r.Session
			switch r.Mode {
			case rule.ModePass:
				line += "pass"
			case rule.ModeAuto:
				line += " auto"
			}
			for _, more := range []string{string(r.Owner), string(r.WritesPerRead)} {
				if more != "" {
					line += " " + more
				}
			}
			got = append(got, line)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestRulesFitWhateverKeysThereAre(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		p := newPlay(t)
		var keys []string
		for range 1 + random.IntN(12) {
			var key strings.Builder
			for range 1 + random.IntN(5) {
				key.WriteString([]string{"a", "b7", "42", "*", "<s>", `\`, ":", "{", "}", "-", "_", "9f86d081884c7d65", "\xff", "é", "|", "/"}[random.IntN(16)])
			}
			keys = append(keys, key.String())
			if random.IntN(3) > 0 {
				p.run(strings.Split(cycle(key.String()), "; ")...)
			} else {
				p.run("a GET " + key.String())
				keys = keys[:len(keys)-1]
			}
		}
		set := compiled(t, p.o.Report())
		for _, key := range keys {
			if r := set.Match([]byte(key)); r == nil || r.Mode == rule.ModePass {
				t.Fatalf("%q of %q is not guarded", key, keys)
			}
		}
	}
}

func TestLongHoldsMakeLongTimes(t *testing.T) {
	p := newPlay(t)
	p.run("a GET k")
	p.o.keys[p.o.hash(0, []byte("k"))].owners[0].reads[0].at = time.Now().Add(-3 * time.Minute)
	p.run("a SET k 1")
	r := p.o.Report()
	compiled(t, r)
	if got := r.Rules[0]; time.Duration(got.Idle) < 6*time.Minute || got.MaxHold < got.Idle || !strings.Contains(r.YAML, "max_hold: 6m") {
		t.Errorf("%+v\n%s", got, r.YAML)
	}
	text, err := json.Marshal(r.Rules)
	var back []Rule
	if err != nil || !strings.Contains(string(text), `"idle":"6m`) || json.Unmarshal(text, &back) != nil || !slices.Equal(back, r.Rules) {
		t.Errorf("%v: %s", err, text)
	}
}

func TestReportIsForPeopleAndForPrograms(t *testing.T) {
	p := newPlay(t)
	p.run("a GET c:1", "b GET c:1", "a SET c:1 1", "b SET c:1 1", "a INCR n:1 -> :1", "a EVAL s 1 n:1")
	r := p.o.Report()
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{": 1 update lost.", "\nc:* ", "\nn:* ", `"b" unknown library from 10.0.0.1: 1 read, 1 write`, "\nrules:\n  # ", `session: "c:<session>"`, "1 call of a script"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || back.Lost != 1 || len(back.Patterns) != 2 || back.YAML != r.YAML {
		t.Errorf("%v in %s", err, text)
	}
}

func TestReportOfNothing(t *testing.T) {
	var out bytes.Buffer
	if err := New(DefaultTurn).Report().Write(&out); err != nil || !strings.Contains(out.String(), "no command with keys") {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	p := newPlay(t)
	c := p.conn("a")
	for i := range maxKeys + 1000 {
		answer(c.Send(p.call(fmt.Sprintf("GET chat:%d", i))), "$-1\r\n")
	}
	for i := range 2 * maxOwners {
		p.run(fmt.Sprintf("c%d GET chat:0", i))
	}
	for range 2 * maxReads {
		p.run("a GET chat:0", "a SET chat:1 x")
	}
	k := p.o.keys[p.o.hash(0, []byte("chat:0"))]
	if len(p.o.keys) != maxKeys || p.o.left.Keys != 1002 || len(k.owners) > maxOwners || len(k.owner(c, true).reads) > maxReads {
		t.Errorf("%d keys, %d forgotten, %d owners", len(p.o.keys), p.o.left.Keys, len(k.owners))
	}
	if found := p.pattern(); len(found.Clients) > maxPerPattern+1 || found.Reads != maxKeys+1000+2*maxOwners+2*maxReads {
		t.Errorf("%d clients, %d reads", len(found.Clients), found.Reads)
	}
	n := 0
	for k := p.o.oldest; k != nil; k = k.newer {
		n++
	}
	for k := p.o.newest; k != nil; k = k.older {
		n++
	}
	if n != 2*maxKeys {
		t.Errorf("%d keys are chained by use", n/2)
	}
	for i := range maxClients + 10 {
		p.o.Connect(fmt.Sprintf("10.1.%d.%d:1", i/256, i%256))
	}
	if len(p.o.groups) > maxClients+1 || p.o.left.Clients == 0 {
		t.Errorf("%d clients", len(p.o.groups))
	}
}

func TestQuantiles(t *testing.T) {
	var h histogram
	if h.quantile(.5) != 0 {
		t.Error("of nothing")
	}
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0: time.Millisecond, .5: 500 * time.Millisecond, .99: 990 * time.Millisecond, 1: time.Second} {
		if got := h.quantile(q); got < want-want/50 || got > want+want/7 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
	h.add(1 << 62)
	h.add(-1)
	for d := time.Duration(1); d > 0; d *= 3 {
		if b := bucket(d); ceiling(b) < d.Truncate(time.Microsecond) || b > 0 && ceiling(b-1) >= d {
			t.Errorf("%v is in bucket %d, up to %v", d, b, ceiling(b))
		}
	}
}
