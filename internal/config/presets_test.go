package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

func TestEveryPresetStandsForItsRules(t *testing.T) {
	for _, p := range rule.Presets() {
		cfg := load(t, "rules:\n  - preset: "+p.Name+"\n")
		if len(cfg.Rules) != len(p.Rules) {
			t.Fatalf("%s: %d rules, want %d", p.Name, len(cfg.Rules), len(p.Rules))
		}
		for i, r := range cfg.Rules {
			want, err := rule.Compile(p.Rules[i].Rule)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r, want) {
				t.Errorf("%s: got %+v, want %+v", p.Name, r, want)
			}
		}
		guards := slices.ContainsFunc(cfg.Rules, (*rule.Rule).Guards)
		if nothing := strings.Contains(strings.Join(cfg.Notes(), "\n"), "the rule changes nothing"); nothing == guards {
			t.Errorf("%s: the notes are %q", p.Name, cfg.Notes())
		}
	}
}

func TestOptionsBesideAPresetChangeItsRulesThatGuard(t *testing.T) {
	cfg := load(t, `rules:
  - preset: langgraph
    name: lg
    mode: lock
    owner: proxy
    writes_per_read: one
    wait: 3s
    lease: 10s
    max_hold: 10m
    record_ttl: 2h
  - preset: strands
    prefix: "my:"
  - preset: llamaindex
    prefix: "chat/"
    session: "chat/<user>/*"
`)
	var got []string
	for _, r := range cfg.Rules {
		got = append(got, strings.Join([]string{r.Name, r.Prefix, r.Session, string(r.Mode)}, " "))
	}
	want := []string{
		"lg checkpoint checkpoint*:<thread>:* lock", "lg-writes checkpoint_write:  pass", "lg-zset write_keys_zset:  pass",
		"strands my: my:<session>:* fence",
		"llamaindex chat/ chat/<user>/* fence", "llamaindex-docstore docstore/  pass", "llamaindex-index index_store/  pass",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	lg := cfg.Rules[0]
	if lg.Owner != rule.OwnerProxy || lg.WritesPerRead != rule.One || lg.Wait != 3*time.Second || lg.Lease != 10*time.Second ||
		lg.MaxHold != 10*time.Minute || lg.RecordTTL != 2*time.Hour {
		t.Errorf("got %+v", lg)
	}
	if pass := cfg.Rules[1]; pass.Wait != rule.Default().Wait {
		t.Errorf("got %+v", pass)
	}
}

func TestAPresetIsWhatItsRulesAreWhenTheConfigurationIsReadAgain(t *testing.T) {
	was := load(t, "rules: [{preset: connect-redis}]\n")
	is := load(t, "rules: [{preset: connect-redis, wait: 1s}, {preset: mem0}]\n")
	revised, changed, restart := was.Revised(is)
	if want := []string{"rule connect-redis changed", "rule mem0 added"}; !slices.Equal(changed, want) || len(restart) > 0 {
		t.Errorf("changed %q, restart %q", changed, restart)
	}
	if r := revised.Set.Match([]byte("sess:1")); r == nil || r.Wait != time.Second || !was.Rules[0].PlacedAs(r) {
		t.Errorf("got %+v", r)
	}
	written := load(t, "rules: [{name: connect-redis, prefix: 'sess:', mode: fence}]\n")
	if moved := was.Set.Moved(written.Set); len(moved) > 0 {
		t.Errorf("written out, its rules are others: %v", moved)
	}
}

func TestAMistakeBesideAPresetIsRefusedWithItsLineAndARemedy(t *testing.T) {
	const all = "the presets are langgraph, langgraph-js, valkey-saver, langchain-js, n8n, flowise, langchain-community, llamaindex, openai-agents, agent-framework, " +
		"agent-memory-server, google-adk, mastra, strands, mem0, connect-redis, flask-session, home-made, bullmq, rq, celery, resumable-stream"
	for _, tc := range []struct{ name, text, want string }{
		{"a misspelt preset", "rules:\n  - preset: mastra\n  - preset: LangGrap\n", `config.yaml:3: rules[1].preset: "LangGrap" is not a preset: did you mean langgraph?`},
		{"an unknown preset", "rules:\n  - wait: 1s\n    preset: crewai\n", `config.yaml:3: rules[0].preset: "crewai" is not a preset: ` + all},
		{"an empty preset", "rules:\n  - preset: ''\n", `config.yaml:2: rules[0].preset: "" is not a preset: ` + all},
		{"a list of presets", "rules:\n  - preset: [rq]\n", `config.yaml:2: rules[0].preset: is a list, not one value: write it on one line, after preset:`},
		{"a preset outside", "preset: rq\n", `config.yaml:1: preset: is not an option: preset belongs to a rule, under rules`},
		{"a bad value, for several rules", "rules:\n  - preset: google-adk\n    wait: 2\n", `config.yaml:3: rules[0].wait: "2" has no unit: write 2s or 2ms`},
		{"a value that can't work, for several rules", "rules:\n  - preset: google-adk\n    max_hold: 1s\n", `config.yaml:3: rules[0].max_hold: 1s is shorter than lease (30s): write 30s or more, or shorten lease`},
		{"a bad name, for several rules", "rules:\n  - preset: google-adk\n    name: a b\n", `config.yaml:3: rules[0].name: "a b" cannot be a name: use 1 to 64 letters, digits, _ . or -`},
		{"a prefix for several rules", "rules:\n  - preset: mastra\n    prefix: 'm:'\n", `config.yaml:3: rules[0].prefix: preset "mastra" has 6 rules, each with a prefix of its own: leave it out, or write the rules out: fence-proxy presets mastra`},
		{"a session for several rules", "rules:\n  - preset: langgraph\n    session: 'checkpoint:<s>'\n", `config.yaml:3: rules[0].session: preset "langgraph" has 3 rules, each with a session of its own: leave it out, or write the rules out: fence-proxy presets langgraph`},
		{"a mode for what passes", "rules:\n  - preset: bullmq\n    prefix: 'b:'\n    mode: lock\n", `config.yaml:4: rules[0].mode: preset "bullmq" only lets keys pass: leave it out`},
		{"a pattern for another prefix", "rules:\n  - preset: connect-redis\n    session: 'chat:<s>'\n", `config.yaml:3: rules[0].session: "chat:<s>" matches no key that begins with the prefix "sess:": begin it with "sess:"`},
		{
			"two presets with one prefix", "rules:\n  - preset: google-adk\n  - preset: home-made\n",
			`config.yaml:3: rules[1].preset: preset "home-made" in rules[1] has the prefix "session:", and so has preset "google-adk" in rules[0] (line 2): keep one of them, or write out the rules that you need: fence-proxy presets home-made`,
		},
		{
			"two presets that are alike", "rules:\n  - preset: langgraph\n  - preset: langgraph-js\n",
			`config.yaml:3: rules[1].preset: preset "langgraph-js" in rules[1] has the prefix "checkpoint", and so has preset "langgraph" in rules[0] (line 2): keep one of them, or write out the rules that you need: fence-proxy presets langgraph-js`,
		},
		{
			"a preset and a rule", "rules:\n  - name: mine\n    prefix: 'sess:'\n  - preset: connect-redis\n",
			`config.yaml:4: rules[1].preset: preset "connect-redis" in rules[1] has the prefix "sess:", and so has rules[0] (line 3): keep one of them, or write out the rules that you need: fence-proxy presets connect-redis`,
		},
		{
			"a rule and a preset", "rules:\n  - preset: connect-redis\n  - name: mine\n    prefix: 'sess:'\n",
			`config.yaml:4: rules[1].prefix: rules[1] has the prefix "sess:", and so has preset "connect-redis" in rules[0] (line 2): keep one of them, or write out the rules that you need: fence-proxy presets connect-redis`,
		},
		{
			"a preset twice", "rules:\n  - preset: connect-redis\n  - preset: connect-redis\n    prefix: 'other:'\n",
			`config.yaml:3: rules[1].preset: preset "connect-redis" in rules[1] has the name "connect-redis", and so has preset "connect-redis" in rules[0] (line 2): keep one of them, or give each a name and a prefix of its own`,
		},
		{
			"a preset's name", "rules:\n  - preset: mem0\n  - name: mem0\n    prefix: 'm:'\n",
			`config.yaml:3: rules[1].name: rules[1] has the name "mem0", and so has preset "mem0" in rules[0] (line 2): give one of them another name`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(write(t, tc.text), nil)
			if err == nil || err.Error() != tc.want {
				t.Errorf("got\n%v\nwant\n%s", err, tc.want)
			}
		})
	}
	for _, text := range []string{
		"rules:\n  - preset: connect-redis\n  - preset: connect-redis\n    name: other\n    prefix: 'other:'\n",
		"rules:\n  - preset: bullmq\n    prefix: 'queue:'\n",
	} {
		load(t, text)
	}
}
