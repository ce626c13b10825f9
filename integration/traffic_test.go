//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// sample is what agent software was recorded to send, under the preset for it. A line of the traffic is
//
//	A.c1 -> GET key | GET key => value | nil
//
// a process, one of its connections, the commands that it sends in one piece, and their replies: an integer, a text, nil, [a list], an
// error's first word, or ? for any. Without replies anything but an error may come. Each process has a proxy of its own; R is Redis itself.
type sample struct {
	name, rules, traffic string
}

// preset is a configuration with presets alone.
func preset(names ...string) string {
	text := "rules:\n"
	for _, name := range names {
		text += "  - preset: " + name + "\n"
	}
	return text
}

var samples = []sample{
	{"connect-redis, two requests", preset("connect-redis"), `
		R -> SET sess:sid-1001 {"items":["a"]}
		A.c1 -> GET sess:sid-1001 => {"items":["a"]}
		A.c1 -> SET sess:sid-1001 {"items":["a","b"]} EX 86400 => OK
		A.c1 -> GET sess:sid-1001 => {"items":["a","b"]}
		A.c1 -> EXPIRE sess:sid-1001 86400 => 1
		B.c1 -> GET sess:sid-1001
		B.c1 -> SET sess:sid-1001 {"items":["a","b","c"]} EX 86400 => OK
	`},
	{"connect-redis, a touch of what is stale", preset("connect-redis"), `
		R -> SET sess:sid-1001 v1
		A.c1 -> GET sess:sid-1001 => v1
		B.c1 -> GET sess:sid-1001 => v1
		B.c1 -> SET sess:sid-1001 v2 EX 86400 => OK
		A.c1 -> EXPIRE sess:sid-1001 86400 => 1
		A.c1 -> GET sess:sid-1001 => v2
		A.c1 -> SET sess:sid-1001 v3 EX 86400 => OK
	`},
	{"connect-redis, two requests of one connection", preset("connect-redis"), `
		R -> SET sess:sid-1001 {"items":["a","b"]}
		A.c1 -> GET sess:sid-1001
		A.c1 -> GET sess:sid-1001
		A.c1 -> SET sess:sid-1001 {"items":["a","b","X"]} EX 86400 => OK
		A.c1 -> SET sess:sid-1001 {"items":["a","b","Y"]} EX 86400 => FENCED
		R -> GET sess:sid-1001 => {"items":["a","b","X"]}
	`},
	{"connect-redis, a pool", preset("connect-redis"), `
		R -> SET sess:sid-1001 {"items":["a"]}
		A.c2 -> GET sess:sid-1001
		A.c1 -> SET sess:sid-1001 {"items":["a","b"]} EX 86400 => OK
		A.c3 -> GET sess:sid-1001 => {"items":["a","b"]}
		A.c2 -> EXPIRE sess:sid-1001 86400 => 1
		A.c3 -> GET sess:sid-1001 => {"items":["a","b"]}
		A.c1 -> SET sess:sid-1001 {"items":["a","b","c"]} EX 86400 => OK
	`},
	{"connect-redis, a pool that is stale", preset("connect-redis"), `
		R -> SET sess:sid-1001 v1
		A.c2 -> GET sess:sid-1001
		B.c1 -> GET sess:sid-1001
		B.c2 -> SET sess:sid-1001 v2 EX 86400 => OK
		A.c1 -> SET sess:sid-1001 v2' EX 86400 => FENCED
		R -> GET sess:sid-1001 => v2
	`},
	{"connect-redis, a logout", preset("connect-redis"), `
		R -> SET sess:sid-1001 {"user":"u1"}
		A.c1 -> GET sess:sid-1001
		B.c1 -> GET sess:sid-1001
		B.c1 -> DEL sess:sid-1001 => 1
		A.c1 -> SET sess:sid-1001 {"user":"u1"} EX 86400 => FENCED
		R -> EXISTS sess:sid-1001 => 0
	`},
	{"connect-redis, a new session", preset("connect-redis"), `
		A.c1 -> SET sess:sid-2002 {"cookie":{}} EX 86400 => OK
	`},

	{"Flask-Session, a pool", preset("flask-session"), `
		R -> SET session:1f0c v1
		A.c1 -> GET session:1f0c
		A.c3 -> SET session:1f0c v2 EX 2678400 => OK
		B.c1 -> GET session:1f0c => v2
		A.c2 -> GET session:1f0c => v2
		A.c1 -> SET session:1f0c v3 EX 2678400 => OK
		B.c1 -> SET session:1f0c v3' EX 2678400 => FENCED
		R -> GET session:1f0c => v3
	`},

	{"LangChain, two turns at once", preset("langchain-js"), appends("chat-77", "LPUSH", "chat-77")},
	{"n8n, two turns at once", preset("n8n"), appends("9d2e__Redis_Chat_Memory", "LPUSH", "9d2e__Redis_Chat_Memory")},
	{"langchain-community, two turns at once", preset("langchain-community"), `
		A.c1 -> INFO cluster
	` + appends("message_store:chat-77", "LPUSH", "message_store:chat-77")},
	{"Flowise, a connection for each operation", preset("flowise"), `
		A.c1 -> client setinfo LIB-NAME ioredis | client setinfo LIB-VER 5.11.1 | info | lrange chat-77 -10 -1 | quit => ? | ? | ? | [] | OK
		B.c1 -> lrange chat-77 -10 -1 => []
		A.c2 -> client setinfo LIB-NAME ioredis | client setinfo LIB-VER 5.11.1 | info => ? | ? | ?
		A.c2 -> lpush chat-77 human => 1
		A.c2 -> expire chat-77 600 => 1
		B.c1 -> lpush chat-77 human' => 2
		A.c2 -> lpush chat-77 ai => 3
		A.c2 -> expire chat-77 600 | quit
		R -> LRANGE chat-77 0 -1 => [ai human' human]
	`},

	{"LangGraph, one turn of two steps, over a pool", preset("langgraph"), `
		R -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-0003
		R -> JSON.SET checkpoint:thread-42:__empty__:1f1e-0003 $ {}
		A.c1 -> GET checkpoint_latest:thread-42:__empty__ => checkpoint:thread-42:__empty__:1f1e-0003
		A.c1 -> JSON.GET checkpoint:thread-42:__empty__:1f1e-0003 . => {}
		A.c1 -> EXISTS write_keys_zset:thread-42:__empty__:1f1e-0003 => 0
		A.c2 -> JSON.SET checkpoint_write:thread-42:__empty__:1f1e-0003:task-a:0 $ {} | JSON.MERGE checkpoint:thread-42:__empty__:1f1e-0003 $ {"has_writes":true} => OK | OK
		A.c1 -> ZADD write_keys_zset:thread-42:__empty__:1f1e-0003 0 checkpoint_write:thread-42:__empty__:1f1e-0003:task-a:0 => 1
		A.c1 -> JSON.SET checkpoint:thread-42:__empty__:1f1e-0004 $ {"parent_checkpoint_id":"1f1e-0003"} => OK
		A.c1 -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-0004 => OK
		A.c1 -> JSON.SET checkpoint:thread-42:__empty__:1f1e-0005 $ {} => OK
		A.c1 -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-0005 => OK
		B.c1 -> GET checkpoint_latest:thread-42:__empty__ => checkpoint:thread-42:__empty__:1f1e-0005
		B.c1 -> JSON.SET checkpoint:thread-42:__empty__:1f1e-0006 $ {} => OK
		B.c1 -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-0006 => OK
	`},
	{"LangGraph, a fork", preset("langgraph"), `
		R -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-0005
		A.c1 -> GET checkpoint_latest:thread-42:__empty__
		B.c1 -> GET checkpoint_latest:thread-42:__empty__
		A.c1 -> JSON.SET checkpoint:thread-42:__empty__:1f1e-00A6 $ {} => OK
		A.c1 -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-00A6 => OK
		B.c1 -> JSON.SET checkpoint:thread-42:__empty__:1f1e-00B6 $ {} => FENCED
		A.c1 -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-00A7 => OK
		R -> EXISTS checkpoint:thread-42:__empty__:1f1e-00B6 => 0
	`},
	{"LangGraph, a fork by clients that know no JSON", preset("langgraph"), `
		R -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-0005
		A.c1 -> GET checkpoint_latest:thread-42:__empty__
		B.c1 -> GET checkpoint_latest:thread-42:__empty__
		A.c1 -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-00A6 => OK
		B.c1 -> SET checkpoint_latest:thread-42:__empty__ checkpoint:thread-42:__empty__:1f1e-00B6 => FENCED
		R -> GET checkpoint_latest:thread-42:__empty__ => checkpoint:thread-42:__empty__:1f1e-00A6
	`},
	{"LangGraph in JavaScript, two turns", preset("langgraph-js"), `
		R -> JSON.SET checkpoint:thread-42::1f1e-0003 $ {}
		A.c1 -> KEYS checkpoint:thread-42::* => [checkpoint:thread-42::1f1e-0003]
		A.c1 -> JSON.GET checkpoint:thread-42::1f1e-0003 => {}
		A.c1 -> JSON.GET checkpoint_blob:thread-42::messages:4 | JSON.GET checkpoint_blob:thread-42::__start__:2 => nil | nil
		B.c1 -> KEYS checkpoint:thread-42::*
		B.c1 -> JSON.GET checkpoint:thread-42::1f1e-0003 => {}
		A.c1 -> EXISTS write_keys_zset:thread-42::1f1e-0004 => 0
		A.c1 -> JSON.SET checkpoint_write:thread-42::1f1e-0004:task-a:0 $ {} NX => OK
		A.c1 -> ZADD write_keys_zset:thread-42::1f1e-0004 1560082.15 checkpoint_write:thread-42::1f1e-0004:task-a:0 => 1
		A.c1 -> JSON.SET checkpoint_blob:thread-42::messages:5 $ A => OK
		A.c1 -> JSON.SET checkpoint:thread-42::1f1e-0004 $ {} => OK
		A.c1 -> EXISTS checkpoint:thread-42::1f1e-0004 => 1
		A.c1 -> JSON.GET checkpoint:thread-42::1f1e-0004 => {}
		A.c1 -> JSON.SET checkpoint:thread-42::1f1e-0004 $ {"has_writes":"true"} => OK
		B.c1 -> JSON.SET checkpoint_blob:thread-42::messages:5 $ B => FENCED
		R -> JSON.GET checkpoint_blob:thread-42::messages:5 => A
	`},
	{"LangGraph in JavaScript, a list of checkpoints that is out of date", preset("langgraph-js"), `
		R -> JSON.SET checkpoint:thread-42::1f1e-0003 $ {}
		B.c1 -> KEYS checkpoint:thread-42::* => [checkpoint:thread-42::1f1e-0003]
		A.c1 -> KEYS checkpoint:thread-42::* => [checkpoint:thread-42::1f1e-0003]
		A.c1 -> JSON.SET checkpoint:thread-42::1f1e-0004 $ {} => OK
		A.c1 -> JSON.SET checkpoint:thread-43::1f1e-0001 $ {} => OK
		B.c1 -> JSON.SET checkpoint:thread-42::1f1e-00B4 $ {} => FENCED
		B.c1 -> SCAN 0 COUNT 1000 MATCH checkpoint:thread-43::* => ?
		A.c1 -> JSON.SET checkpoint:thread-43::1f1e-0002 $ {} => OK
		B.c1 -> JSON.SET checkpoint:thread-43::1f1e-00B2 $ {} => FENCED
		R -> EXISTS checkpoint:thread-42::1f1e-00B4 checkpoint:thread-43::1f1e-00B2 => 0
	`},
	{"agent-memory-server, a summary and a PUT", preset("agent-memory-server"), `
		R -> SET working_memory:migration:complete true
		A.c1 -> GET working_memory:migration:complete => true
		A.c1 -> JSON.GET working_memory:ns1:u-1:s-1 . => nil
		B.c1 -> JSON.GET working_memory:ns1:u-1:s-1 . => nil
		B.c1 -> JSON.SET working_memory:ns1:u-1:s-1 $ put => OK
		B.c1 -> EXPIRE working_memory:ns1:u-1:s-1 3600 => 1
		A.c2 -> JSON.SET working_memory:ns1:u-1:s-1 $ summary => FENCED
		R -> JSON.GET working_memory:ns1:u-1:s-1 => put
	`},
	{"Strands, two processes", preset("strands"), `
		A.c1 -> JSON.GET session:s-1 | SCAN 0 MATCH session:s-1:agent:default:message:* COUNT 100 | JSON.GET session:s-1:agent:default => nil | ? | nil
		B.c1 -> JSON.GET session:s-1 | SCAN 0 MATCH session:s-1:agent:default:message:* COUNT 100 | JSON.GET session:s-1:agent:default => nil | ? | nil
		A.c1 -> JSON.SET session:s-1:agent:default:message:4 $ A => OK
		A.c1 -> JSON.GET session:s-1:agent:default => nil
		A.c1 -> JSON.SET session:s-1:agent:default $ {} => OK
		B.c1 -> JSON.SET session:s-1:agent:default:message:4 $ B => FENCED
		R -> JSON.GET session:s-1:agent:default:message:4 => A
	`},
	{"a hand-written history in JSON", preset("home-made"), `
		A.c1 -> JSON.GET chats_user-7 => nil
		B.c1 -> JSON.GET chats_user-7 => nil
		A.c1 -> JSON.SET chats_user-7 $ {"1":{}} => OK
		B.c1 -> JSON.SET chats_user-7 $ {"2":{}} => FENCED
	`},
	{"ValkeySaver, parallel tools of one pool", preset("valkey-saver"), `
		A.c1 -> LRANGE thread:{thread-42}: 0 0 => []
		A.c1 -> MULTI | GET checkpoint:{thread-42}::1f1e-0003 | GET writes:{thread-42}::1f1e-0003 | EXEC => OK | QUEUED | QUEUED | [nil nil]
		A.c2 -> MULTI | GET writes:{thread-42}::1f1e-0003 | EXEC => OK | QUEUED | [nil]
		A.c3 -> MULTI | SET writes:{thread-42}::1f1e-0003 [t1] | EXPIRE writes:{thread-42}::1f1e-0003 3600 | EXEC => OK | QUEUED | QUEUED | [OK 1]
		A.c1 -> MULTI | SET checkpoint:{thread-42}::1f1e-0004 {} | LPUSH thread:{thread-42}: 1f1e-0004 | EXEC => OK | QUEUED | QUEUED | [OK 1]
		R -> GET writes:{thread-42}::1f1e-0003 => [t1]
	`},
	{"ValkeySaver, parallel tools", preset("valkey-saver"), `
		A.c1 -> MULTI | GET writes:{thread-42}::1f1e-0003 | EXEC
		B.c1 -> MULTI | GET writes:{thread-42}::1f1e-0003 | EXEC
		A.c1 -> MULTI | SET writes:{thread-42}::1f1e-0003 [t1] | EXPIRE writes:{thread-42}::1f1e-0003 3600 | EXEC => OK | QUEUED | QUEUED | [OK 1]
		B.c1 -> MULTI | SET writes:{thread-42}::1f1e-0003 [t2] | EXPIRE writes:{thread-42}::1f1e-0003 3600 | EXEC => OK | QUEUED | QUEUED | FENCED
		R -> GET writes:{thread-42}::1f1e-0003 => [t1]
	`},
	{"ValkeySaver, parallel tools of one connection", preset("valkey-saver"), `
		A.c1 -> MULTI | GET writes:{thread-42}::1f1e-0003 | EXEC
		A.c1 -> MULTI | GET writes:{thread-42}::1f1e-0003 | EXEC
		A.c1 -> MULTI | SET writes:{thread-42}::1f1e-0003 [t1] | EXEC => OK | QUEUED | [OK]
		A.c1 -> MULTI | SET writes:{thread-42}::1f1e-0003 [t2] | EXEC => OK | QUEUED | FENCED
	`},
	{"ValkeySaver, a fork", preset("valkey-saver"), `
		A.c1 -> LRANGE thread:{thread-42}: 0 0
		A.c1 -> MULTI | GET checkpoint:{thread-42}::1f1e-0003 | GET writes:{thread-42}::1f1e-0003 | EXEC
		B.c1 -> LRANGE thread:{thread-42}: 0 0
		B.c1 -> MULTI | GET checkpoint:{thread-42}::1f1e-0003 | GET writes:{thread-42}::1f1e-0003 | EXEC
		A.c1 -> MULTI | SET checkpoint:{thread-42}::1f1e-00A4 {} | LPUSH thread:{thread-42}: 1f1e-00A4 | EXEC => OK | QUEUED | QUEUED | [OK 1]
		A.c1 -> MULTI | SET checkpoint:{thread-42}::1f1e-00A5 {} | LPUSH thread:{thread-42}: 1f1e-00A5 | EXEC => OK | QUEUED | QUEUED | [OK 2]
		B.c1 -> MULTI | SET checkpoint:{thread-42}::1f1e-00B4 {} | LPUSH thread:{thread-42}: 1f1e-00B4 | EXEC => OK | QUEUED | QUEUED | FENCED
		R -> LRANGE thread:{thread-42}: 0 -1 => [1f1e-00A5 1f1e-00A4]
	`},

	{"Google ADK, a write at each event", preset("google-adk"), `
		R -> SET session:s-9 {"events":[e1,e2]}
		A.c1 -> GET session:s-9
		A.c1 -> HGETALL app:shop
		A.c1 -> HGETALL user:shop:u-1
		B.c1 -> GET session:s-9
		A.c1 -> EXPIRE app::shop:u-1 3600 | SET session:s-9 {"events":[e1,e2,e3]} EX 3600 => 0 | OK
		A.c2 -> EXPIRE app::shop:u-1 3600 | HSET user:shop:u-1 lang "de" | SET session:s-9 {"events":[e1,e2,e3,e4]} EX 3600 => 0 | 1 | OK
		A.c1 -> EXPIRE app::shop:u-1 3600 | SET session:s-9 {"events":[e1,e2,e3,e4,e5]} EX 3600 => 0 | OK
		B.c1 -> EXPIRE app::shop:u-1 3600 | SET session:s-9 {"events":[e1,e2,f3]} EX 3600 => 0 | FENCED
		R -> GET session:s-9 => {"events":[e1,e2,e3,e4,e5]}
		B.c1 -> GET session:s-9 => {"events":[e1,e2,e3,e4,e5]}
		B.c1 -> SET session:s-9 {"events":[e1,e2,e3,e4,e5,f6]} EX 3600 => OK
	`},

	{"Mastra, a turn", preset("mastra"), `
		A.c1 -> GET mastra_threads:id:thread-42
		A.c1 -> MGET msg-idx:m1u msg-idx:m1a
		A.c1 -> MULTI | SET mastra_messages:threadId:thread-42:id:m1u {} | SET msg-idx:m1u thread-42 | ZADD thread:thread-42:messages 1790000000000000 m1u | SET mastra_threads:id:thread-42 {"a":1} | EXEC => OK | QUEUED | QUEUED | QUEUED | QUEUED | [OK OK 1 OK]
		A.c1 -> GET mastra_resources:user-7
		A.c1 -> SET mastra_resources:user-7 {"workingMemory":"#"} => OK
		A.c1 -> GET mastra_workflow_snapshot:namespace:workflows:workflow_name:agentLoop:run_id:run-1
		A.c1 -> SET mastra_workflow_snapshot:namespace:workflows:workflow_name:agentLoop:run_id:run-1 {} => OK
	`},
	{"Mastra, two turns", preset("mastra"), `
		A.c1 -> GET mastra_threads:id:thread-42
		B.c1 -> GET mastra_threads:id:thread-42
		A.c1 -> MULTI | SET mastra_messages:threadId:thread-42:id:mA {} | SET msg-idx:mA thread-42 | ZADD thread:thread-42:messages 1 mA | SET mastra_threads:id:thread-42 {"a":1} | EXEC => OK | QUEUED | QUEUED | QUEUED | QUEUED | [OK OK 1 OK]
		B.c1 -> MULTI | SET mastra_messages:threadId:thread-42:id:mB {} | SET msg-idx:mB thread-42 | ZADD thread:thread-42:messages 2 mB | SET mastra_threads:id:thread-42 {"b":1} | EXEC => OK | QUEUED | QUEUED | QUEUED | QUEUED | FENCED
		R -> EXISTS mastra_messages:threadId:thread-42:id:mB msg-idx:mB => 0
		R -> GET mastra_threads:id:thread-42 => {"a":1}
	`},
	{"Mastra, two reads and two writes in one piece", preset("mastra"), `
		A.c1 -> GET mastra_resources:user-7 | GET mastra_resources:user-7 => nil | nil
		A.c1 -> SET mastra_resources:user-7 {meta:{turn:2,a:1}} | SET mastra_resources:user-7 {meta:{turn:2,b:1}} => OK | FENCED
		R -> GET mastra_resources:user-7 => {meta:{turn:2,a:1}}
	`},

	{"OpenAI Agents, two turns", preset("openai-agents"), `
		A.c1 -> LRANGE agents:session:s-1:messages 0 -1 => []
		B.c1 -> LRANGE agents:session:s-1:messages 0 -1 => []
		A.c1 -> WATCH agents:session:s-1 agents:session:s-1:messages agents:session:s-1:counter
		A.c1 -> TYPE agents:session:s-1 => none
		A.c1 -> TYPE agents:session:s-1:messages => none
		B.c1 -> WATCH agents:session:s-1 agents:session:s-1:messages agents:session:s-1:counter
		B.c1 -> TYPE agents:session:s-1 => none
		B.c1 -> TYPE agents:session:s-1:messages => none
		A.c1 -> MULTI | HSET agents:session:s-1 session_id s-1 | HSETNX agents:session:s-1 created_at 1 | RPUSH agents:session:s-1:messages a1 a2 | HSET agents:session:s-1 updated_at 1 | EXEC => OK | QUEUED | QUEUED | QUEUED | QUEUED | [1 1 2 1]
		B.c1 -> MULTI | HSET agents:session:s-1 session_id s-1 | HSETNX agents:session:s-1 created_at 2 | RPUSH agents:session:s-1:messages b1 b2 | HSET agents:session:s-1 updated_at 2 | EXEC => OK | QUEUED | QUEUED | QUEUED | QUEUED | nil
		B.c1 -> WATCH agents:session:s-1 agents:session:s-1:messages agents:session:s-1:counter
		B.c1 -> TYPE agents:session:s-1 => hash
		B.c1 -> TYPE agents:session:s-1:messages => list
		B.c1 -> MULTI | HSET agents:session:s-1 session_id s-1 | HSETNX agents:session:s-1 created_at 2 | RPUSH agents:session:s-1:messages b1 b2 | HSET agents:session:s-1 updated_at 2 | EXEC => OK | QUEUED | QUEUED | QUEUED | QUEUED | [0 0 4 0]
		R -> LRANGE agents:session:s-1:messages 0 -1 => [a1 a2 b1 b2]
	`},
	{"OpenAI Agents, one after the other", preset("openai-agents"), `
		A.c1 -> LRANGE agents:session:s-1:messages 0 -1 => []
		B.c1 -> LRANGE agents:session:s-1:messages 0 -1 => []
		A.c1 -> WATCH agents:session:s-1 agents:session:s-1:messages agents:session:s-1:counter
		A.c1 -> TYPE agents:session:s-1
		A.c1 -> TYPE agents:session:s-1:messages
		A.c1 -> MULTI | HSET agents:session:s-1 session_id s-1 | RPUSH agents:session:s-1:messages a1 | EXEC => OK | QUEUED | QUEUED | [1 1]
		B.c1 -> WATCH agents:session:s-1 agents:session:s-1:messages agents:session:s-1:counter
		B.c1 -> TYPE agents:session:s-1
		B.c1 -> TYPE agents:session:s-1:messages
		B.c1 -> MULTI | HSET agents:session:s-1 session_id s-1 | RPUSH agents:session:s-1:messages b1 | EXEC => OK | QUEUED | QUEUED | [0 2]
		A.c1 -> LRANGE agents:session:s-1:messages 0 -1 => [a1 b1]
	`},

	{"Agent Framework, two turns at once", preset("agent-framework"), `
		A.c1 -> LRANGE chat_messages:s-1 0 -1 => []
		B.c1 -> LRANGE chat_messages:s-1 0 -1 => []
		A.c1 -> MULTI | RPUSH chat_messages:s-1 a1 | RPUSH chat_messages:s-1 a2 | EXEC => OK | QUEUED | QUEUED | [1 2]
		B.c1 -> MULTI | RPUSH chat_messages:s-1 b1 | RPUSH chat_messages:s-1 b2 | EXEC => OK | QUEUED | QUEUED | [3 4]
		A.c1 -> MULTI | RPUSH chat_messages:s-1 a3 | EXEC => OK | QUEUED | [5]
		A.c2 -> LLEN chat_messages:s-1 => 5
		B.c1 -> MULTI | RPUSH chat_messages:s-1 b3 | EXEC => OK | QUEUED | [6]
		A.c2 -> LTRIM chat_messages:s-1 -50 -1 => OK
		B.c2 -> LLEN chat_messages:s-1 => 6
		B.c2 -> LTRIM chat_messages:s-1 -50 -1 => OK
		R -> LRANGE chat_messages:s-1 0 -1 => [a1 a2 b1 b2 a3 b3]
	`},

	{"LlamaIndex, a rewrite", preset("llamaindex"), `
		R -> RPUSH user-7 m1 m2
		A.c1 -> LRANGE user-7 0 -1 => [m1 m2]
		B.c1 -> LRANGE user-7 0 -1 => [m1 m2]
		A.c2 -> DEL user-7 => 1
		A.c1 -> RPUSH user-7 m1 => 1
		A.c1 -> RPUSH user-7 m2 => 2
		A.c1 -> RPUSH user-7 m3 => 3
		A.c1 -> EXPIRE user-7 600 => 1
		B.c2 -> DEL user-7 => FENCED
		R -> LRANGE user-7 0 -1 => [m1 m2 m3]
		A.c1 -> HGET docstore/data node-1 => nil
		B.c1 -> HSET docstore/data node-2 {} => 1
		A.c1 -> HSET docstore/data node-1 {} => 1
	`},

	{"mem0, two updates of a memory", preset("mem0"), `
		R -> HSET mem0:memories:6f0b memory old hash h1
		A.c1 -> HGETALL mem0:memories:6f0b => [memory old hash h1]
		B.c1 -> HGETALL mem0:memories:6f0b => [memory old hash h1]
		A.c1 -> HSET mem0:memories:6f0b memory tea hash h2 updated_at 1790000000 => 1
		B.c1 -> HSET mem0:memories:6f0b memory coffee hash h3 updated_at 1790000001 => FENCED
		R -> HGET mem0:memories:6f0b memory => tea
	`},

	{"a hand-written history", preset("home-made"), `
		A.c1 -> GET chat:conv-5 => nil
		B.c1 -> GET chat:conv-5 => nil
		A.c1 -> SET chat:conv-5 [a] EX 3600 => OK
		B.c1 -> SETEX chat:conv-5 3600 [b] => FENCED
		B.c1 -> GET chat:conv-5 => [a]
		B.c1 -> SETEX chat:conv-5 3600 [a,b] => OK
		A.c1 -> GET chat_history:u-1:s-1
		A.c1 -> SET chat_history:u-1:s-1 [] EX 3600 => OK
	`},

	{"a read that is sent again over new connections", preset("home-made"), `
		R -> SET chat:conv-5 v1
		A.c1 -> GET chat:conv-5 => v1
		A.c2 -> GET chat:conv-5 => v1
		A.c3 -> GET chat:conv-5 => v1
		A.c3 -> SET chat:conv-5 v2 EX 3600 => OK
		B.c1 -> GET chat:conv-5 => v2
		A.c3 -> GET chat:conv-5 => v2
		A.c3 -> SET chat:conv-5 v3 EX 3600 => OK
		B.c1 -> SET chat:conv-5 v3' EX 3600 => FENCED
	`},

	{"what passes, beside a rule for all keys", preset("n8n", "bullmq", "rq", "celery", "resumable-stream"), `
		A.c1 -> eval return{redis.call('incr',KEYS[1]),redis.call('get',ARGV[1])} 1 bull:agent-runs:id bull:agent-runs:none => [1 nil]
		A.c3 -> client setname bull:YWdlbnQtcnVucw==
		A.c3 -> bzpopmin bull:agent-runs:marker 0.01 => nil
		A.c2 -> INCR resumable-stream:rs:sentinel:st-1 => 1
		A.c2 -> SET resumable-stream:rs:sentinel:st-1 1 EX 86400 => OK
		B.c2 -> GET resumable-stream:rs:sentinel:st-1 => 1
		A.c2 -> SET resumable-stream:rs:sentinel:st-1 DONE EX 86400 => OK
		B.c2 -> SET resumable-stream:rs:sentinel:st-1 DONE EX 86400 => OK
		A.c1 -> MULTI | SETEX celery-task-meta-77 86400 {} | PUBLISH celery-task-meta-77 {} | EXEC => OK | QUEUED | QUEUED | [OK 0]
		B.c1 -> HGETALL rq:job:77 => []
		A.c1 -> HSET rq:job:77 meta a => 1
		B.c1 -> HSET rq:job:77 meta b => 0
		B.c1 -> BLMOVE rq:queue:default rq:queue:default:intermediate RIGHT LEFT 0.01 => nil
	`},
}

// appends is two turns at once that only append to a history, newest first.
func appends(key, push, list string) string {
	return strings.NewReplacer("KEY", key, "PUSH", push, "LIST", list).Replace(`
		A.c1 -> LRANGE LIST 0 -1 => []
		B.c1 -> LRANGE LIST 0 -1 => []
		A.c1 -> PUSH KEY humanA => 1
		A.c1 -> EXPIRE KEY 3600 => 1
		B.c1 -> PUSH KEY humanB => 2
		B.c1 -> EXPIRE KEY 3600 => 1
		B.c1 -> PUSH KEY aiB => 3
		B.c1 -> EXPIRE KEY 3600 => 1
		A.c1 -> PUSH KEY aiA => 4
		A.c1 -> EXPIRE KEY 3600 => 1
		R -> LRANGE LIST 0 -1 => [aiA aiB humanB humanA]
	`)
}

func TestRecordedTrafficIsAllowedOrFencedAsItShould(t *testing.T) {
	t.Parallel()
	json := harness.WithJSON(t)
	for _, s := range samples {
		t.Run(s.name, func(t *testing.T) {
			p := newPlayers(t, harness.StartRedis(t, json), s.rules)
			p.play(s.traffic)
		})
	}
}

// Turns that follow each other are refused nothing, though nothing says that a turn is over.
func TestTurnsOfTwoProcessesOneAfterTheOtherAreNeverRefused(t *testing.T) {
	t.Parallel()
	json := harness.WithJSON(t)
	for _, s := range []sample{
		{"LangGraph", preset("langgraph"), `
			P.c1 -> GET checkpoint_latest:thread-42:__empty__
			P.c1 -> JSON.GET checkpoint:thread-42:__empty__:1
			P.c1 -> EXISTS write_keys_zset:thread-42:__empty__:1
			P.c1 -> JSON.SET checkpoint:thread-42:__empty__:2 $ {}
			P.c1 -> SET checkpoint_latest:thread-42:__empty__ 2
			P.c1 -> JSON.SET checkpoint:thread-42:__empty__:3 $ {}
			P.c1 -> SET checkpoint_latest:thread-42:__empty__ 3
		`},
		{"Strands", preset("strands"), `
			P.c1 -> JSON.GET session:s-1
			P.c1 -> JSON.GET session:s-1:agent:default
			P.c1 -> JSON.SET session:s-1:agent:default:message:4 $ {}
			P.c1 -> JSON.GET session:s-1:agent:default
			P.c1 -> JSON.SET session:s-1:agent:default $ {}
		`},
		{"ValkeySaver", preset("valkey-saver"), `
			P.c1 -> LRANGE thread:{thread-42}: 0 0
			P.c1 -> MULTI | GET checkpoint:{thread-42}::3 | GET writes:{thread-42}::3 | EXEC
			P.c1 -> MULTI | GET writes:{thread-42}::3 | EXEC
			P.c1 -> MULTI | SET writes:{thread-42}::3 [t1] | EXEC
			P.c1 -> MULTI | SET checkpoint:{thread-42}::4 {} | LPUSH thread:{thread-42}: 4 | EXEC
			P.c1 -> MULTI | SET checkpoint:{thread-42}::5 {} | LPUSH thread:{thread-42}: 5 | EXEC
		`},
		{"Google ADK", preset("google-adk"), `
			P.c1 -> GET session:s-9
			P.c1 -> HGETALL app:shop
			P.c1 -> HGETALL user:shop:u-1
			P.c1 -> EXPIRE app::shop:u-1 3600 | SET session:s-9 {} EX 3600
			P.c1 -> EXPIRE app::shop:u-1 3600 | HSET user:shop:u-1 lang de | SET session:s-9 {} EX 3600
		`},
	} {
		t.Run(s.name, func(t *testing.T) {
			p := newPlayers(t, harness.StartRedis(t, json), s.rules)
			for range 20 {
				p.play(strings.ReplaceAll(s.traffic, "P.", "A."))
				p.play(strings.ReplaceAll(s.traffic, "P.", "B."))
			}
		})
	}
}

// players are the connections of a sample.
type players struct {
	t     *testing.T
	addrs map[string]string // of each process
	conns map[string]*harness.RawConn
	lacks *lacking
}

func newPlayers(t *testing.T, server *harness.Redis, rules string) *players {
	t.Helper()
	p := &players{t: t, addrs: map[string]string{"R": server.Addr}, conns: map[string]*harness.RawConn{}, lacks: newLacking(t, server)}
	for _, name := range []string{"A", "B"} {
		p.addrs[name] = harness.StartProxy(t, harness.ProxyOptions{Name: name + "'s", Redis: server, ConfigYAML: rules}).Addr
	}
	return p
}

// play plays traffic line by line.
func (p *players) play(traffic string) {
	p.t.Helper()
	for line := range strings.Lines(traffic) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		who, says, ok := strings.Cut(line, " -> ")
		if !ok {
			p.t.Fatalf("%q is no line of traffic", line)
		}
		says, hears, told := strings.Cut(says, " => ")
		commands := strings.Split(says, " | ")
		segment := ""
		calls := make([][]string, len(commands))
		for i, c := range commands {
			calls[i] = strings.Fields(c)
			segment += harness.Encode(calls[i]...)
		}
		if p.lacks.any(p.t, calls) {
			continue
		}
		conn := p.connection(who)
		conn.Send(segment)
		var heard []string
		wants := strings.Split(hears, " | ")
		failed := false
		for i := range commands {
			raw, err := conn.Read()
			if err != nil {
				p.t.Fatalf("%s\nhears %v, then: %v", line, heard, err)
			}
			reply, err := harness.Decode(raw)
			if err != nil {
				p.t.Fatalf("%s\nhears %q: %v", line, raw, err)
			}
			_, isError := reply.(harness.ReplyError)
			failed = failed || isError
			if told && i < len(wants) && wants[i] == "?" {
				heard = append(heard, "?")
				continue
			}
			heard = append(heard, written(reply))
		}
		if got := strings.Join(heard, " | "); told && got != hears || !told && failed {
			p.t.Fatalf("%s\nhears %s", line, got)
		}
	}
}

// connection returns a process's connection, which is made when it is first used.
func (p *players) connection(who string) *harness.RawConn {
	p.t.Helper()
	if p.conns[who] == nil {
		process, _, _ := strings.Cut(who, ".")
		p.conns[who] = harness.Dial(p.t, p.addrs[process])
	}
	return p.conns[who]
}

// written writes a reply as samples do.
func written(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "nil"
	case harness.ReplyError:
		word, rest, _ := strings.Cut(string(r), " ")
		if word == "ERR" {
			return word + " " + rest
		}
		return word
	case []any:
		parts := make([]string, len(r))
		for i := range r {
			parts[i] = written(r[i])
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(reply)
}
