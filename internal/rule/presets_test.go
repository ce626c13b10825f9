package rule

import (
	"slices"
	"testing"
)

func presetSet(tb testing.TB, names ...string) *Set {
	tb.Helper()
	var rules []*Rule
	for _, name := range names {
		p, ok := PresetNamed(name)
		if !ok {
			tb.Fatalf("there is no preset %q", name)
		}
		for _, r := range p.Rules {
			compiled, err := Compile(r.Rule)
			if err != nil {
				tb.Fatalf("%s: %v", name, err)
			}
			rules = append(rules, compiled)
		}
	}
	s, err := NewSet(rules)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestEveryPresetHasRulesWithAReason(t *testing.T) {
	t.Parallel()
	for _, p := range Presets() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			presetSet(t, p.Name)
			if len(p.Rules) == 0 || p.Software == "" {
				t.Errorf("has %d rules, for %q", len(p.Rules), p.Software)
			}
			for _, r := range p.Rules {
				if r.Why == "" || r.Preset != p.Name || r.Name != p.Name+r.Suffix {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	names := PresetNames()
	for _, e := range presets {
		if !slices.Contains(names, e.preset) {
			t.Errorf("%q is not listed", e.preset)
		}
	}
	if _, ok := PresetNamed("none"); ok {
		t.Error("there is a preset that is not listed")
	}
}

// The keys are those that the software uses.
func TestThePresetsFindTheSessionsOfRecordedKeys(t *testing.T) {
	t.Parallel()
	const free = "" // no rule, or one that lets the key pass
	for _, tc := range []struct{ preset, key, rule, session string }{
		{"langgraph", "checkpoint_latest:thread-42:__empty__", "langgraph", "thread-42"},
		{"langgraph", "checkpoint:thread-42:__empty__:1f1e-0003", "langgraph", "thread-42"},
		{"langgraph", "checkpoint:thread-42:tools:1f1e-0003", "langgraph", "thread-42"},
		{"langgraph", "checkpoint_blob:thread-42:__empty__:messages:4", "langgraph", "thread-42"},
		{"langgraph", "checkpoint:thread-43:__empty__:1f1e-0003", "langgraph", "thread-43"},
		{"langgraph", "checkpoint_write:thread-42:__empty__:1f1e-0003:task-a:0", free, ""},
		{"langgraph", "write_keys_zset:thread-42:__empty__:1f1e-0003", free, ""},
		{"langgraph", "checkpoints", "langgraph", "=checkpoints"},
		{"langgraph-js", "checkpoint:thread-42::1f1e-0003", "langgraph-js", "thread-42"},
		{"langgraph-js", "checkpoint_blob:thread-42::messages:4", "langgraph-js", "thread-42"},
		{"langgraph-js", "checkpoint_blob:thread-42::__start__:2", "langgraph-js", "thread-42"},
		{"langgraph-js", "checkpoint_write:thread-42::1f1e-0004:task-a:0", free, ""},
		{"langgraph-js", "write_keys_zset:thread-42::1f1e-0004", free, ""},
		{"valkey-saver", "thread:{thread-42}:", "valkey-saver-thread", "thread-42"},
		{"valkey-saver", "checkpoint:{thread-42}::1f1e-0003", "valkey-saver", "thread-42"},
		{"valkey-saver", "checkpoint:{thread-42}:ns:1f1e-0003", "valkey-saver", "thread-42"},
		{"valkey-saver", "writes:{thread-42}::1f1e-0003", "valkey-saver-writes", "writes:{thread-42}::1f1e-0003"},
		{"langchain-js", "chat-77", "langchain-js", "chat-77"},
		{"n8n", "9d2e__Redis_Chat_Memory", "n8n", "9d2e__Redis_Chat_Memory"},
		{"flowise", "chat-77", "flowise", "chat-77"},
		{"langchain-community", "message_store:chat-77", "langchain-community", "message_store:chat-77"},
		{"llamaindex", "user-7", "llamaindex", "user-7"},
		{"llamaindex", "docstore/data", free, ""},
		{"llamaindex", "index_store/data", free, ""},
		{"openai-agents", "agents:session:s-1", "openai-agents", "agents:session:s-1"},
		{"openai-agents", "agents:session:s-1:messages", "openai-agents", "agents:session:s-1:messages"},
		{"openai-agents", "agents:session:s-1:counter", "openai-agents", "agents:session:s-1:counter"},
		{"agent-framework", "chat_messages:s-1", "agent-framework", "chat_messages:s-1"},
		{"agent-memory-server", "working_memory:s-1", "agent-memory-server", "working_memory:s-1"},
		{"agent-memory-server", "working_memory:ns1:u-1:s-1", "agent-memory-server", "working_memory:ns1:u-1:s-1"},
		{"agent-memory-server", "working_memory:migration:complete", free, ""},
		{"google-adk", "session:s-9", "google-adk", "session:s-9"},
		{"google-adk", "app:shop", "google-adk-app", "app:shop"},
		{"google-adk", "user:shop:u-1", "google-adk-user", "user:shop:u-1"},
		{"mastra", "mastra_threads:id:thread-42", "mastra-threads", "mastra_threads:id:thread-42"},
		{"mastra", "mastra_resources:user-7", "mastra-resources", "mastra_resources:user-7"},
		{
			"mastra", "mastra_workflow_snapshot:namespace:workflows:workflow_name:agentLoop:run_id:run-1",
			"mastra-workflows", "mastra_workflow_snapshot:namespace:workflows:workflow_name:agentLoop:run_id:run-1",
		},
		{"mastra", "mastra_messages:threadId:thread-42:id:m1u", free, ""},
		{"mastra", "msg-idx:m1u", free, ""},
		{"mastra", "thread:thread-42:messages", free, ""},
		{"strands", "session:s-1:agent:default", "strands", "s-1"},
		{"strands", "session:s-1:agent:default:message:4", "strands", "s-1"},
		{"strands", "session:s-1", "strands", "=session:s-1"},
		{"mem0", "mem0:memories:6f0b", "mem0", "mem0:memories:6f0b"},
		{"connect-redis", "sess:sid-1001", "connect-redis", "sess:sid-1001"},
		{"flask-session", "session:1f0c", "flask-session", "session:1f0c"},
		{"home-made", "chat:conv-5", "home-made-chat", "chat:conv-5"},
		{"home-made", "chats_user-7", "home-made-chats", "chats_user-7"},
		{"home-made", "chat_history:u-1:s-1", "home-made-history", "chat_history:u-1:s-1"},
		{"home-made", "session:s-1", "home-made-session", "session:s-1"},
		{"bullmq", "bull:agent-runs:wait", free, ""},
		{"rq", "rq:job:77", free, ""},
		{"celery", "celery-task-meta-77", free, ""},
		{"resumable-stream", "resumable-stream:rs:sentinel:st-1", free, ""},
	} {
		r := presetSet(t, tc.preset).Match([]byte(tc.key))
		if tc.rule == free {
			if r.Guards() {
				t.Errorf("%s: %s is guarded by %s", tc.preset, tc.key, r.Name)
			}
			continue
		}
		if r == nil || r.Name != tc.rule {
			t.Errorf("%s: %s: got rule %v, want %s", tc.preset, tc.key, r, tc.rule)
			continue
		}
		if got := string(r.AppendSession(nil, []byte(tc.key))); got != tc.session {
			t.Errorf("%s: %s: got session %q, want %q", tc.preset, tc.key, got, tc.session)
		}
	}
}

func TestPresetsThatShareNoPrefixCanBeTakenTogether(t *testing.T) {
	t.Parallel()
	s := presetSet(t, "langgraph", "valkey-saver", "n8n", "mastra", "openai-agents", "connect-redis", "home-made", "bullmq", "rq", "celery", "resumable-stream")
	for key, want := range map[string]string{
		"checkpoint:{t}::1":    "valkey-saver",
		"checkpoint:t:ns:1":    "langgraph",
		"write_keys_zset:t:ns": "langgraph-zset",
		"thread:{t}:":          "valkey-saver-thread",
		"thread:t:messages":    "mastra-order",
		"bull:q:wait":          "bullmq",
		"chat-77":              "n8n",
	} {
		if r := s.Match([]byte(key)); r == nil || r.Name != want {
			t.Errorf("%s: got %v, want %s", key, r, want)
		}
	}
}

func TestAPatternGoesWithItsRuleToAnotherPrefix(t *testing.T) {
	t.Parallel()
	r := compiled(t, "session:", "session:<session>:*").At("my*app:")
	moved, err := Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(moved.AppendSession(nil, []byte("my*app:s-1:agent:a"))); moved.Prefix != "my*app:" || got != "s-1" {
		t.Errorf("prefix %q, pattern %q, session %q", moved.Prefix, moved.Session, got)
	}
	if r := compiled(t, "session:", "").At("s:"); r.Prefix != "s:" || r.Session != "" {
		t.Errorf("prefix %q, pattern %q", r.Prefix, r.Session)
	}
}
