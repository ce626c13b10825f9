package rule

import (
	"slices"
	"strings"
)

// Preset is the rules for one kind of software, under the keys that it uses.
type Preset struct {
	Name     string // as in "preset: langgraph"
	Software string // what writes these keys
	Rules    []*PresetRule
}

// PresetRule is a rule of a preset that is not compiled yet. The rule's name is the preset's and Suffix.
type PresetRule struct {
	Rule
	Suffix string
	Why    string // the rule is as it is, in a few words
}

// software is what each preset is for, in the order in which they are listed.
var software = []struct{ preset, what string }{
	{"langgraph", "LangGraph, Python (RedisSaver)"},
	{"langgraph-js", "LangGraph, JavaScript (RedisSaver)"},
	{"valkey-saver", "LangGraph on AWS (ValkeySaver)"},
	{"langchain-js", "LangChain, JavaScript (RedisChatMessageHistory)"},
	{"n8n", "n8n (Redis Chat Memory)"},
	{"flowise", "Flowise (Redis-Backed Chat Memory)"},
	{"langchain-community", "LangChain, Python (langchain-community)"},
	{"llamaindex", "LlamaIndex (RedisChatStore, RedisKVStore)"},
	{"openai-agents", "OpenAI Agents SDK (RedisSession)"},
	{"agent-framework", "Microsoft Agent Framework (RedisHistoryProvider)"},
	{"agent-memory-server", "redis/agent-memory-server"},
	{"google-adk", "Google ADK (RedisSessionService)"},
	{"mastra", "Mastra (@mastra/redis)"},
	{"strands", "Strands (Valkey session manager)"},
	{"mem0", "mem0"},
	{"connect-redis", "express-session with connect-redis"},
	{"flask-session", "Flask-Session"},
	{"home-made", "the usual hand-written history: a JSON text per conversation"},
	{"bullmq", "BullMQ"},
	{"rq", "RQ"},
	{"celery", "Celery results"},
	{"resumable-stream", "resumable-stream"},
}

// presets are the rules of all presets. Without a pattern each key is its own session. Appends are atomic updates, which
// no mode refuses, so what only appends has the mode auto. What goes on writing after one read has the mode fence: a hold would outlast
// the last write, for nothing says which that is, and the next turn would wait for it in vain.
var presets = []struct {
	preset, suffix, prefix, session string
	mode                            Mode
	writes                          WritesPerRead
	why                             string
}{
	{"langgraph", "", "checkpoint", "checkpoint*:<thread>:*", ModeFence, Many, "checkpoint_latest, checkpoints and blobs of a thread are one session; a turn writes at every step what follows from one read"},
	{"langgraph", "-writes", "checkpoint_write:", "", ModePass, One, "each task writes keys of its own"},
	{"langgraph", "-zset", "write_keys_zset:", "", ModePass, One, "an index of them, only added to"},

	{"langgraph-js", "", "checkpoint", "checkpoint*:<thread>:*", ModeFence, Many, "checkpoints and blobs of a thread are one session: two turns would write the same version of a blob"},
	{"langgraph-js", "-writes", "checkpoint_write:", "", ModePass, One, "each task writes keys of its own"},
	{"langgraph-js", "-zset", "write_keys_zset:", "", ModePass, One, "an index of them, only added to"},

	{"valkey-saver", "", "checkpoint:{", "checkpoint:{<thread>}:*", ModeFence, Many, "a turn writes at every step what follows from one read"},
	{"valkey-saver", "-thread", "thread:{", "thread:{<thread>}:*", ModeFence, Many, "the list of a thread's checkpoints, only pushed to"},
	{"valkey-saver", "-writes", "writes:{", "", ModeFence, One, "parallel tasks each read the whole list and write it back"},

	{"langchain-js", "", "", "", ModeAuto, One, "keys are bare session ids: give a prefix if yours have one, or every key is guarded"},
	{"n8n", "", "", "", ModeAuto, One, "keys are bare session ids, some with the node's name behind: give a prefix if yours have one, or every key is guarded"},
	{"flowise", "", "", "", ModeAuto, One, "keys are bare session ids: give a prefix if yours have one, or every key is guarded"},
	{"langchain-community", "", "message_store:", "", ModeAuto, One, "LRANGE, then LPUSH"},

	{"llamaindex", "", "", "", ModeFence, Many, "a chat is deleted and pushed anew from what was read; keys are bare ids: give a prefix if yours have one, or every key is guarded"},
	{"llamaindex", "-docstore", "docstore/", "", ModePass, One, "one hash for all documents, each written in a field of its own"},
	{"llamaindex", "-index", "index_store/", "", ModePass, One, "one hash for all indexes, each written in a field of its own"},

	{"openai-agents", "", "agents:session:", "", ModeAuto, One, "WATCH … RPUSH, EXEC: it takes care of itself, and its WATCH keeps its meaning"},
	{"agent-framework", "", "chat_messages:", "", ModeAuto, One, "LRANGE, then RPUSH in a transaction"},

	{"agent-memory-server", "", "working_memory:", "", ModeFence, One, "the whole document is read, summarised and written back"},
	{"agent-memory-server", "-migration", "working_memory:migration:", "", ModePass, One, "its own flags"},

	{"google-adk", "", "session:", "", ModeFence, Many, "one read, then the whole document is written at every event"},
	{"google-adk", "-app", "app:", "", ModeFence, Many, "state of the application, written at any event"},
	{"google-adk", "-user", "user:", "", ModeFence, Many, "state of the user, written at any event"},

	{"mastra", "-threads", "mastra_threads:id:", "", ModeFence, One, "GET, then SET in a transaction with the messages"},
	{"mastra", "-resources", "mastra_resources:", "", ModeFence, One, "working memory: GET, then SET of the whole"},
	{"mastra", "-workflows", "mastra_workflow_snapshot:", "", ModeFence, One, "GET, then SET of the whole snapshot of a run"},
	{"mastra", "-messages", "mastra_messages:", "", ModePass, One, "each message has a key of its own"},
	{"mastra", "-index", "msg-idx:", "", ModePass, One, "where a message is"},
	{"mastra", "-order", "thread:", "", ModePass, One, "the order of the messages, only added to"},

	{"strands", "", "session:", "session:<session>:*", ModeFence, Many, "agents and messages of a session are one: two processes would write the same number of a message"},
	{"mem0", "", "mem0:", "", ModeFence, One, "HGETALL, an embedding call, HSET: each memory is its own session"},

	{"connect-redis", "", "sess:", "", ModeFence, One, "GET, then SET; a request that only reads sends EXPIRE, which passes"},
	{"flask-session", "", "session:", "", ModeFence, One, "GET, then SET of the whole session"},

	{"home-made", "-chat", "chat:", "", ModeFence, One, "GET, then SET of the whole history"},
	{"home-made", "-chats", "chats_", "", ModeFence, One, "JSON.GET, then JSON.SET of all chats of a user"},
	{"home-made", "-history", "chat_history:", "", ModeFence, One, "GET, then SET of the whole history"},
	{"home-made", "-session", "session:", "", ModeFence, One, "GET, then SET of the whole session"},

	{"bullmq", "", "bull:", "", ModePass, One, "its scripts are atomic"},
	{"rq", "", "rq:", "", ModePass, One, "queues and jobs: a job has one worker"},
	{"celery", "", "celery-task-meta-", "", ModePass, One, "written once by the task's worker"},
	{"resumable-stream", "", "resumable-stream:rs:", "", ModePass, One, "counters and pub/sub"},
}

// Presets returns all presets.
func Presets() []Preset {
	all := make([]Preset, 0, len(software))
	for _, s := range software {
		p := Preset{Name: s.preset, Software: s.what}
		for _, e := range presets {
			if e.preset != s.preset {
				continue
			}
			r := Default()
			r.Name, r.Preset, r.Prefix, r.Session, r.Mode, r.WritesPerRead = e.preset+e.suffix, e.preset, e.prefix, e.session, e.mode, e.writes
			p.Rules = append(p.Rules, &PresetRule{Rule: r, Suffix: e.suffix, Why: e.why})
		}
		all = append(all, p)
	}
	return all
}

// Home is the index of the rule that may be for another prefix: the only one, or the one for keys that begin with anything. It
// is -1 if there is none.
func (p Preset) Home() int {
	if len(p.Rules) == 1 {
		return 0
	}
	return slices.IndexFunc(p.Rules, func(r *PresetRule) bool { return r.Prefix == "" })
}

// PresetNamed returns the preset of this name; ok is false if there is none.
func PresetNamed(name string) (p Preset, ok bool) {
	all := Presets()
	at := slices.IndexFunc(all, func(p Preset) bool { return p.Name == name })
	if at < 0 {
		return Preset{}, false
	}
	return all[at], true
}

// PresetNames lists the names of all presets.
func PresetNames() []string {
	names := make([]string, len(software))
	for i, s := range software {
		names[i] = s.preset
	}
	return names
}

// At returns the rule for keys that begin with another prefix: its pattern goes with it.
func (r Rule) At(prefix string) Rule {
	if r.Session != "" {
		r.Session = literal(prefix) + strings.TrimPrefix(r.Session, literal(r.Prefix))
	}
	r.Prefix = prefix
	return r
}
