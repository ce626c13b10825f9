//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// What a guard costs in round trips to Redis when nobody else is there.
func TestAnUncontendedCycleCostsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: relay.URL(), ConfigYAML: endless("60s")})
	client, _ := connect(t, "client", proxy.Addr)
	client.does("PONG", "PING") // its connection to Redis is open

	for _, c := range []struct {
		name     string
		commands [][]string
		trips    int
	}{
		{"a read and a write", [][]string{{"GET", "ctx:1"}, {"SET", "ctx:1", "v"}}, 2},
		{"the next read and write", [][]string{{"GET", "ctx:1"}, {"SET", "ctx:1", "v"}}, 2},
		{"a blind write", [][]string{{"SET", "ctx:1", "v"}}, 1},
		{"a blind write of a new session", [][]string{{"RPUSH", "ctx:2", "v"}}, 1},
		{"reads of a session that is held", [][]string{{"GET", "ctx:3"}, {"GET", "ctx:3"}, {"STRLEN", "ctx:3"}, {"SET", "ctx:3", "v"}}, 4},
		{"a sequence on a session, one on another in between", [][]string{
			{"GET", "ctx:4"}, {"GET", "ctx:5"}, {"SET", "ctx:5", "v"}, {"SET", "ctx:4", "v"},
		}, 4},
		{"several sessions at once", [][]string{{"MGET", "ctx:6", "ctx:7", "ctx:8"}, {"DEL", "ctx:8", "ctx:7", "ctx:6"}}, 2},
		{"a blind write of several sessions", [][]string{{"MSET", "ctx:6", "v", "ctx:7", "v"}}, 1},
		{"an expiry", [][]string{{"EXPIRE", "ctx:1", "100"}}, 1},
		{"an unguarded command", [][]string{{"GET", "free"}}, 1},
	} {
		before := relay.RoundTrips()
		for _, command := range c.commands {
			client.sends(command...)
			client.reply()
		}
		if got := relay.RoundTrips() - before; got != c.trips {
			t.Errorf("%s: %q cost %d round trips, want %d", c.name, c.commands, got, c.trips)
		}
	}
}

// Case 12: what Redis answers straight, it answers through the proxy, byte for byte.
// The exceptions are tests of their own below.
//
// One command a line, a value with odd bytes in quotes. "~" marks a time left that may differ by
// a little. Sets and hashes stay small where a reply's order depends on a server's hash seed.
const commandsOfEveryKind = `
SET ctx:s v
GET ctx:s
get ctx:s
SeT ctx:s w
GET ctx:none
SET ctx:s ""
GET ctx:s
STRLEN ctx:s
SET ctx:s "line\r\nbreak"
GET ctx:s
SET "ctx:\x00\xff\r\n" "\x00\x01\xfe\xff*3\r\n$"
GET "ctx:\x00\xff\r\n"
DEL "ctx:\x00\xff\r\n"
SET "ctx:" "the prefix itself"
GET "ctx:"
APPEND ctx:s more
GETRANGE ctx:s 0 3
SUBSTR ctx:s -4 -1
SETRANGE ctx:s 2 xyz
SETRANGE ctx:none 0 ""
GETDEL ctx:s
GETDEL ctx:s
GETSET ctx:s old
GETSET ctx:s new
LCS ctx:s ctx:s
SET ctx:s2 newer
LCS ctx:s ctx:s2 IDX WITHMATCHLEN
OBJECT ENCODING ctx:s
OBJECT ENCODING ctx:none
OBJECT REFCOUNT ctx:s
OBJECT NONSENSE ctx:s
TYPE ctx:s
TYPE ctx:none
EXISTS ctx:s ctx:s ctx:none free
TOUCH ctx:s ctx:none

SET ctx:o v NX
SET ctx:o v NX
SET ctx:o w XX
SET ctx:none w XX
SET ctx:o x GET
SET ctx:o y NX GET
SET ctx:none2 y NX GET
SET ctx:none3 y XX GET
SET ctx:o z EX 60
~TTL ctx:o
SET ctx:o zz KEEPTTL
~TTL ctx:o
SET ctx:o z PX 60000
~PTTL ctx:o
SET ctx:o z EXAT 4102444800
EXPIRETIME ctx:o
SET ctx:o z PXAT 4102444800123
PEXPIRETIME ctx:o
SET ctx:o z
TTL ctx:o
SETNX ctx:o v
SETNX ctx:o3 v
SETEX ctx:o 60 v
~TTL ctx:o
PSETEX ctx:o 60000 v
~PTTL ctx:o
SETEX ctx:o 0 v
SET ctx:o v EX 0
SET ctx:o v EX -1
SET ctx:o v EX x
SET ctx:o v EX
SET ctx:o v NX XX
SET ctx:o v KEEPTTL EX 3
SET ctx:o v NONSENSE
GETEX ctx:o
GETEX ctx:o EX 50
~TTL ctx:o
GETEX ctx:o PERSIST
TTL ctx:o
GETEX ctx:none4 EX 50
GETEX ctx:o EX
EXPIRE ctx:o 100
EXPIRE ctx:o 100 NX
EXPIRE ctx:o 200 XX
EXPIRE ctx:o 100 GT
EXPIRE ctx:o 100 LT
EXPIRE ctx:o 100 NX XX
EXPIRE ctx:o x
EXPIRE ctx:none4 100
~TTL ctx:o
PEXPIRE ctx:o 100000
EXPIREAT ctx:o 4102444800
EXPIRETIME ctx:o
PEXPIREAT ctx:o 9007199254740993
PEXPIRETIME ctx:o
PERSIST ctx:o
PERSIST ctx:o
PEXPIRETIME ctx:o
PEXPIRETIME ctx:none4
EXPIRE ctx:o -1
EXISTS ctx:o
SET ctx:o v
EXPIREAT ctx:o 1
EXISTS ctx:o
PEXPIRE ctx:none4 -5

SET ctx:n 9007199254740992
INCR ctx:n
INCRBY ctx:n 9000000000000000000
INCRBY ctx:n 9000000000000000000
DECR ctx:n
DECRBY ctx:n 9007199254740993
GET ctx:n
INCRBY ctx:n x
SET ctx:n 9223372036854775807
INCR ctx:n
INCR ctx:s
INCRBYFLOAT ctx:f 0.1
INCRBYFLOAT ctx:f 3.0e3
INCRBYFLOAT ctx:f x
INCRBYFLOAT ctx:s 1
BITFIELD ctx:bits SET i64 0 9007199254740993 GET i64 0
BITFIELD ctx:bits INCRBY i64 0 2
BITFIELD ctx:bits OVERFLOW FAIL INCRBY u2 100 3 INCRBY u2 100 3 GET u2 100
BITFIELD_RO ctx:bits GET i64 0
BITFIELD ctx:bits GET i64 0
BITFIELD ctx:bits SET i65 0 1
SETBIT ctx:bit 7 1
SETBIT ctx:bit 7 0
GETBIT ctx:bit 7
BITCOUNT ctx:bits 0 -1 BIT
BITPOS ctx:bits 1
BITOP NOT ctx:bitnot ctx:bits
PFADD ctx:hll a b c
PFADD ctx:hll a
PFCOUNT ctx:hll
PFCOUNT ctx:hll ctx:none
PFMERGE ctx:hll2 ctx:hll
MSET ctx:m1 1 ctx:m2 2 free:m 3
MGET ctx:m1 ctx:none ctx:m2 free:m ctx:h
MSETNX ctx:m1 1 ctx:m3 2
MSETNX ctx:m4 1 ctx:m5 2
MSET ctx:m1 1 ctx:m2

HSET ctx:h f v g w
HSET ctx:h f v2 i 3
HSET ctx:h f
HGET ctx:h f
HGET ctx:h none
HMGET ctx:h f none g
HMGET ctx:none5 f g
HMSET ctx:h j k
HGETALL ctx:h
HGETALL ctx:none5
HKEYS ctx:h
HVALS ctx:h
HLEN ctx:h
HSTRLEN ctx:h f
HEXISTS ctx:h none
HINCRBY ctx:h n 9007199254740993
HINCRBY ctx:h n 2
HINCRBY ctx:h f 1
HINCRBYFLOAT ctx:h d 10.50
HSETNX ctx:h f x
HDEL ctx:h j none
HRANDFIELD ctx:h 10
HRANDFIELD ctx:h 10 WITHVALUES
HRANDFIELD ctx:none5
HRANDFIELD ctx:none5 3
HSCAN ctx:h 0
HSCAN ctx:h 0 MATCH f* COUNT 100

RPUSH ctx:l a b c d
LPUSH ctx:l z
LRANGE ctx:l 0 -1
LRANGE ctx:none6 0 -1
LINDEX ctx:l 1
LINDEX ctx:l 99
LLEN ctx:l
LSET ctx:l 0 zz
LSET ctx:l 99 zz
LSET ctx:none6 0 zz
LINSERT ctx:l BEFORE a y
LINSERT ctx:l BEFORE none y
LPOS ctx:l c
LPOS ctx:l none
LPOS ctx:l none COUNT 2
LREM ctx:l 0 y
LTRIM ctx:l 0 3
LPUSHX ctx:none6 a
RPUSHX ctx:l e
LPOP ctx:l
LPOP ctx:l 0
LPOP ctx:l 2
RPOP ctx:l
LPOP ctx:none6
LPOP ctx:none6 2
RPOP ctx:none6 2
RPUSH ctx:l a b c
LMPOP 2 ctx:none6 ctx:l LEFT COUNT 2
LMPOP 1 ctx:none6 LEFT
LMOVE ctx:l ctx:l2 LEFT RIGHT
LMOVE ctx:none6 ctx:l2 LEFT RIGHT
RPOPLPUSH ctx:l2 ctx:l2
RPOPLPUSH ctx:none6 ctx:l2

SADD ctx:set 3 1 2 2
SADD ctx:set 1
SMEMBERS ctx:set
SMEMBERS ctx:none7
SISMEMBER ctx:set 9
SMISMEMBER ctx:set 1 9
SCARD ctx:set
SREM ctx:set 3 9
SADD ctx:one only
SRANDMEMBER ctx:one
SRANDMEMBER ctx:one -2
SRANDMEMBER ctx:none7
SRANDMEMBER ctx:none7 2
SPOP ctx:one
SPOP ctx:one
SPOP ctx:one 2
SADD ctx:set2 2 5
SINTER ctx:set ctx:set2
SUNION ctx:set ctx:set2
SDIFF ctx:set ctx:set2
SINTERCARD 2 ctx:set ctx:set2 LIMIT 1
SINTERSTORE ctx:set3 ctx:set ctx:set2
SUNIONSTORE ctx:set3 ctx:set ctx:set2
SDIFFSTORE ctx:set3 ctx:none7
SMOVE ctx:set ctx:set2 1
SMOVE ctx:set ctx:set2 99
SSCAN ctx:set2 0

ZADD ctx:z 1 a 2.5 b inf c
ZADD ctx:z CH 1.5 a
ZADD ctx:z INCR 0.25 a
ZADD ctx:z NX INCR 1 a
ZADD ctx:z XX INCR 1 none
ZADD ctx:z GT LT 1 a
ZADD ctx:z x a
ZINCRBY ctx:z 1e300 d
ZSCORE ctx:z a
ZSCORE ctx:z c
ZSCORE ctx:z none
ZMSCORE ctx:z a none c
ZMSCORE ctx:none8 a
ZRANGE ctx:z 0 -1
ZRANGE ctx:z 0 -1 WITHSCORES
ZRANGE ctx:z 0 2 BYSCORE
ZRANGE ctx:none8 0 -1 WITHSCORES
ZREVRANGE ctx:z 0 1 WITHSCORES
ZRANGEBYSCORE ctx:z -inf +inf WITHSCORES LIMIT 0 2
ZRANGEBYSCORE ctx:z x y
ZRANGEBYLEX ctx:z - +
ZRANK ctx:z b
ZRANK ctx:z none
ZCARD ctx:z
ZCOUNT ctx:z 0 3
ZRANGESTORE ctx:z2 ctx:z 0 1
ZUNIONSTORE ctx:z3 2 ctx:z ctx:z2 WEIGHTS 1 2
ZINTERSTORE ctx:z3 2 ctx:z ctx:z2 AGGREGATE MIN
ZUNION 2 ctx:z ctx:z2 WITHSCORES
ZDIFF 2 ctx:z ctx:z2 WITHSCORES
ZINTERCARD 2 ctx:z ctx:z2
ZRANDMEMBER ctx:none8 2
ZRANDMEMBER ctx:none8
ZRANDMEMBER ctx:z 10 WITHSCORES
ZSCAN ctx:z 0
ZPOPMIN ctx:z
ZPOPMAX ctx:z 1
ZPOPMIN ctx:none8
ZMPOP 2 ctx:none8 ctx:z MIN COUNT 1
ZMPOP 1 ctx:none8 MAX
ZREM ctx:z b none
ZREMRANGEBYRANK ctx:z2 0 0
ZREMRANGEBYSCORE ctx:z2 -inf +inf

GEOADD ctx:geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania
GEOPOS ctx:geo Palermo none
GEOPOS ctx:none9 a
GEODIST ctx:geo Palermo Catania km
GEODIST ctx:geo Palermo none
GEOHASH ctx:geo Palermo none
GEOSEARCH ctx:geo FROMMEMBER Palermo BYRADIUS 200 km ASC WITHCOORD WITHDIST WITHHASH
GEOSEARCHSTORE ctx:geo2 ctx:geo FROMMEMBER Palermo BYRADIUS 200 km
GEORADIUS ctx:geo 15 37 200 km STORE ctx:geo3

XADD ctx:x 1-1 f v
XADD ctx:x 1-1 f v
XADD ctx:x 0-0 f v
XADD ctx:x 2-1 f v g w
XADD ctx:x NOMKSTREAM MAXLEN ~ 100 3-* f v
XADD ctx:none10 NOMKSTREAM 3-1 f v
XLEN ctx:x
XRANGE ctx:x - +
XREVRANGE ctx:x + - COUNT 1
XRANGE ctx:none10 - +
XREAD COUNT 1 STREAMS ctx:x 0
XREAD STREAMS ctx:x $
XREAD STREAMS ctx:x free:x 0 0
XREAD STREAMS ctx:x
XGROUP CREATE ctx:x g 0
XGROUP CREATE ctx:x g 0
XGROUP CREATE ctx:none10 g 0
XGROUP CREATECONSUMER ctx:x g c
XREADGROUP GROUP g c COUNT 1 STREAMS ctx:x >
XREADGROUP GROUP g c STREAMS ctx:x 0
XREADGROUP GROUP none c STREAMS ctx:x >
XPENDING ctx:x g
XPENDING ctx:x none
XCLAIM ctx:x g d 0 1-1 JUSTID
XAUTOCLAIM ctx:x g e 0 0 JUSTID
XACK ctx:x g 1-1
XREADGROUP GROUP g d STREAMS ctx:x >
XREADGROUP GROUP g d STREAMS ctx:x >
XINFO STREAM ctx:x
XINFO GROUPS ctx:x
XINFO STREAM ctx:none10
XDEL ctx:x 1-1
XTRIM ctx:x MAXLEN 1
XSETID ctx:x 9-9
XGROUP DELCONSUMER ctx:x g c
XGROUP DESTROY ctx:x g

RPUSH ctx:sort 3 1 2
SORT ctx:sort
SORT ctx:sort DESC LIMIT 0 2
SORT_RO ctx:sort
SORT ctx:sort BY nosort GET #
SORT ctx:sort STORE ctx:sorted
SORT ctx:none11 STORE ctx:sorted
SORT ctx:s
LRANGE ctx:sorted 0 -1

COPY ctx:s ctx:copy
COPY ctx:s ctx:copy
COPY ctx:s ctx:copy REPLACE
COPY ctx:none12 ctx:copy
COPY ctx:s free:copy
COPY free:copy ctx:copy2
RENAME ctx:copy ctx:copy3
RENAME ctx:copy ctx:copy3
RENAMENX ctx:copy3 ctx:s
RENAMENX ctx:copy3 ctx:copy4
DUMP ctx:s
DUMP ctx:none12
DUMP ctx:h
DUMP ctx:z
RESTORE ctx:restored 0 "\x00\x01v\x0a\x00\x91\x08\xce\xb2\x19\x38\x8a\xce"
GET ctx:restored
RESTORE ctx:restored 0 broken
DEL ctx:copy2 ctx:none12 ctx:copy4 free:copy
DEL ctx:copy2
UNLINK ctx:m1 ctx:m2
MEMORY USAGE ctx:none12

LPUSH ctx:s x
HGET ctx:s f
GET ctx:h
MGET ctx:h ctx:s
INCR ctx:h
RPOPLPUSH ctx:s ctx:l
SADD ctx:z x
GET
SET
GET ctx:s x
SET ctx:s
HGET ctx:h
DEL
EVAL "return 1"
XADD ctx:x
nonsense
NONSENSE free 1 2
"" ""
OBJECT
OBJECT HELP
CONFIG NONSENSE ctx:s
PING ctx:s
ECHO ctx:s

EVAL "return redis.call('set', KEYS[1], ARGV[1])" 1 ctx:script v
EVAL "return redis.call('get', KEYS[1])" 1 ctx:script
EVALSHA d3c21d0c2b9ca22f82737626a27bcaf5d288f99f 1 ctx:script
EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 ctx:script
EVALSHA_RO ffffffffffffffffffffffffffffffffffffffff 1 ctx:script
EVAL_RO "return redis.call('get', KEYS[1])" 1 ctx:script
EVAL_RO "return redis.call('set', KEYS[1], 'x')" 1 ctx:script
EVAL "return {1, 2.9, false, 'x', {ok='fine'}, {}, {1, {2}}}" 1 ctx:script
EVAL "return redis.error_reply('MINE broken')" 1 ctx:script
EVAL "return redis.status_reply('fine')" 1 ctx:script
EVAL "return redis.call('incr', KEYS[1])" 1 ctx:script
EVAL "return redis.pcall('incr', KEYS[1])" 1 ctx:script
EVAL "return {redis.call('get', KEYS[1]), redis.call('get', KEYS[2])}" 2 ctx:script ctx:s
EVAL "error('boom')" 1 ctx:script
EVAL "this is no lua" 1 ctx:script
EVAL "redis.setresp(3); return redis.call('hgetall', KEYS[1])" 1 ctx:h
EVAL "return 1" 2 ctx:script
EVAL "return 1" -1 ctx:script
EVAL "return 1" x ctx:script
EVAL "return 'no key'" 0
FUNCTION LOAD REPLACE "#!lua name=lib\nredis.register_function('fput', function(k, a) return redis.call('set', k[1], a[1]) end)\nredis.register_function{function_name='fget', callback=function(k) return redis.call('get', k[1]) end, flags={'no-writes'}}"
FCALL fput 1 ctx:script x
FCALL fget 1 ctx:script
FCALL_RO fget 1 ctx:script
FCALL_RO fput 1 ctx:script x
FCALL fnone 1 ctx:script
`

// Commands that belong together on one connection.
const commandsOfOneConnection = `
SET free v
GET free
WATCH free
UNWATCH
MULTI
SET free w
GET free
INCR free
EXEC
MULTI
SET free
GET free
EXEC
MULTI
GET free
DISCARD
EXEC
DISCARD
MULTI
MULTI
WATCH free
EXEC
GET ctx:s
SELECT 99
SELECT x
SELECT 1
GET ctx:s
SET ctx:s one
GET ctx:s
SELECT 0
GET ctx:s
SWAPDB 0 0
`

type tableCommand struct {
	args     []string
	tolerant bool
}

// table reads commands as they stand above.
func table(t *testing.T, text string) []tableCommand {
	t.Helper()
	var commands []tableCommand
	for line := range strings.Lines(text) {
		rest, tolerant := strings.CutPrefix(strings.TrimSpace(line), "~")
		var args []string
		for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
			var word string
			if rest[0] != '"' {
				word, rest, _ = strings.Cut(rest, " ")
			} else {
				quoted, err := strconv.QuotedPrefix(rest)
				if err != nil {
					t.Fatalf("the line %s: %v", line, err)
				}
				rest = rest[len(quoted):]
				word, _ = strconv.Unquote(quoted)
			}
			args = append(args, word)
		}
		if len(args) > 0 {
			commands = append(commands, tableCommand{args, tolerant})
		}
	}
	return commands
}

func TestRepliesAreRedissOwnBytes(t *testing.T) {
	t.Parallel()
	straight, behind := harness.StartRedis(t), harness.StartRedis(t)
	// A connection that goes on reading and writing the same keys is one long sequence.
	long := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding("writes_per_read: many")})
	short := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding("writes_per_read: one")})
	// Nothing is guarded, and clients are many enough to share their connections to Redis.
	crowded := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: "rules: []\n"})
	crowd(t, crowded, 8)
	alone := table(t, commandsOfEveryKind)
	commands := slices.Concat(alone, table(t, commandsOfOneConnection))
	var all strings.Builder
	for _, c := range commands {
		all.WriteString(harness.Encode(c.args...))
	}

	for _, protocol := range []string{"2", "3"} {
		empty(t, straight)
		conn := greet(t, straight.Addr, protocol)
		var want [][]byte
		for _, c := range commands {
			want = append(want, conn.Do(c.args...))
		}
		compare := func(t *testing.T, reply func(i int) []byte) {
			t.Helper()
			for i, c := range commands {
				if got := reply(i); !sameReply(got, want[i], c.tolerant) {
					t.Errorf("%.200q: got %.300q, want %.300q", c.args, got, want[i])
				}
			}
		}
		for name, addr := range map[string]string{"guarded": long.Addr, "unguarded in a crowd": crowded.Addr} {
			t.Run("RESP"+protocol+" "+name+" one by one", func(t *testing.T) {
				empty(t, behind)
				conn := greet(t, addr, protocol)
				compare(t, func(i int) []byte { return conn.Do(commands[i].args...) })
			})
			t.Run("RESP"+protocol+" "+name+" pipelined", func(t *testing.T) {
				empty(t, behind)
				conn := greet(t, addr, protocol)
				conn.Send(all.String())
				compare(t, func(int) []byte { return conn.ReadReply() })
			})
			t.Run("RESP"+protocol+" "+name+" cut at odd places", func(t *testing.T) {
				empty(t, behind)
				conn := greet(t, addr, protocol)
				go sendInPieces(conn, all.String())
				compare(t, func(int) []byte { return conn.ReadReply() })
			})
		}
		t.Run("RESP"+protocol+" each over a connection of its own", func(t *testing.T) {
			empty(t, behind)
			conn := greet(t, short.Addr, protocol)
			compare(t, func(i int) []byte {
				if i <= len(alone) {
					_ = conn.Close()
					conn = greet(t, short.Addr, protocol)
				}
				return conn.Do(commands[i].args...)
			})
		})
	}
}

// greet returns a connection that speaks this protocol.
func greet(t *testing.T, addr, protocol string) *harness.RawConn {
	t.Helper()
	conn := harness.Dial(t, addr)
	if reply := conn.Do("HELLO", protocol); !bytes.Contains(reply, []byte("server")) {
		t.Fatalf("HELLO %s: %q", protocol, reply)
	}
	return conn
}

// empty empties a server; what others have loaded into it stays.
func empty(t *testing.T, server *harness.Redis) {
	t.Helper()
	if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// sendInPieces sends a text a few bytes at a time.
func sendInPieces(conn *harness.RawConn, text string) {
	cut := rand.New(rand.NewPCG(1, 2))
	for len(text) > 0 {
		n := min(1+cut.IntN(23), len(text))
		if _, err := conn.Write([]byte(text[:n])); err != nil {
			return // the reader misses the reply
		}
		text = text[n:]
	}
}

// sameReply compares replies; a tolerant one is a time left.
func sameReply(got, want []byte, tolerant bool) bool {
	if !tolerant || bytes.Equal(got, want) {
		return bytes.Equal(got, want)
	}
	a, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(got), ":")))
	b, err2 := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(string(want), ":")))
	return err == nil && err2 == nil && a > 0 && b > 0 && max(a, b) <= 60_000 && (a > 1000) == (b > 1000)
}

// Redis counts some commands as writes that only tell a value.
func TestCommandsThatOnlyTellAValueBeginASequence(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	client, _ := connect(t, "client", proxy.Addr)
	straight := server.Client()
	straight.Set(t.Context(), "ctx:getex", "v", 0)
	straight.PFAdd(t.Context(), "ctx:pfcount", "a")
	straight.RPush(t.Context(), "ctx:sort", "1")
	for _, c := range []struct {
		reply   any
		command []string
		write   []string
	}{
		{"v", []string{"GETEX", "ctx:getex", "EX", "100"}, []string{"SET", "ctx:getex", "w"}},
		{int64(1), []string{"PFCOUNT", "ctx:pfcount"}, []string{"PFADD", "ctx:pfcount", "b"}},
		{[]any{int64(0)}, []string{"BITFIELD", "ctx:bitfield", "GET", "u8", "0"}, []string{"BITFIELD", "ctx:bitfield", "SET", "u8", "0", "1"}},
		{[]any{"1"}, []string{"SORT", "ctx:sort"}, []string{"SORT", "ctx:sort", "STORE", "ctx:sort"}},
		{[]any{}, []string{"GEORADIUS", "ctx:georadius", "0", "0", "1", "m"}, []string{"GEOADD", "ctx:georadius", "0", "0", "here"}},
	} {
		if !knows(t, server, strings.ToLower(c.command[0])) {
			continue
		}
		session := recordOf(t, server, c.command[1])
		client.does(c.reply, c.command...)
		if session.holder() == "" {
			t.Errorf("after %q nobody holds the session", c.command)
		}
		client.sends(c.write...)
		client.reply()
		if session.holder() != "" {
			t.Errorf("after %q the session is still held", c.write)
		}
	}
}

// GETEX with an option changes the key before its client can know whether it may.
func TestGETEXOfASessionThatAnotherHoldsChangesNothing(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	needs(t, server, "getex")
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("100ms")})
	holder, _ := connect(t, "holder", proxy.Addr)
	other, _ := connect(t, "other", proxy.Addr)
	straight := server.Client()
	straight.Set(t.Context(), "ctx:k", "v", 0)
	session := recordOf(t, server, "ctx:k")
	holder.does("v", "GET", "ctx:k")
	for _, options := range [][]string{{"EX", "100"}, {"PX", "100000"}, {"EXAT", "1"}, {"PXAT", "1"}} {
		for _, block := range []bool{false, true} {
			if block {
				other.does("OK", "MULTI")
				other.does("QUEUED", append([]string{"GETEX", "ctx:k"}, options...)...)
				other.fails("LOCKED", "EXEC")
			} else {
				other.fails("LOCKED", append([]string{"GETEX", "ctx:k"}, options...)...)
			}
			if ttl := straight.PTTL(t.Context(), "ctx:k").Val(); ttl != -1 {
				t.Errorf("%q, in MULTI %v: refused, and the key's PTTL is %v", options, block, ttl)
			}
		}
	}
	straight.Expire(t.Context(), "ctx:k", time.Hour)
	other.fails("LOCKED", "GETEX", "ctx:k", "PERSIST")
	if ttl := straight.PTTL(t.Context(), "ctx:k").Val(); ttl <= 0 {
		t.Errorf("PERSIST: refused, and the key's PTTL is %v", ttl)
	}
	holder.does("OK", "SET", "ctx:k", "w")

	// What fails has read nothing.
	straight.RPush(t.Context(), "ctx:l", "x")
	list := recordOf(t, server, "ctx:l")
	other.fails("WRONGTYPE", "GETEX", "ctx:l", "EX", "100")
	harness.Eventually(t, 0, func() bool { return list.holder() == "" }, "the session of a GETEX that failed is given back")
	// What it gave its client is stale when another has written since.
	for _, options := range [][]string{{"EX", "100"}, {"PXAT", "9999999999999"}} {
		for _, block := range []bool{false, true} {
			straight.Set(t.Context(), "ctx:k", "w", 0)
			getex := append([]string{"GETEX", "ctx:k"}, options...)
			if block {
				other.does("OK", "MULTI")
				other.does("QUEUED", getex...)
				other.does([]any{"w"}, "EXEC")
			} else {
				other.does("w", getex...)
			}
			session.loses(session.hold) // as when the hold has ended
			holder.does("OK", "SET", "ctx:k", "newer")
			other.fails("FENCED", "SET", "ctx:k", "stale")
			wantValue(t, server, "ctx:k", "newer")
		}
	}
}

// What reads guarded keys and changes others is carried out once, and only when it is granted.
func TestWhatIsRefusedHasChangedNoOtherKey(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	lacks := newLacking(t, server)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("100ms")})
	patient := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	holder, _ := connect(t, "holder", proxy.Addr)
	straight := server.Client()
	events := straight.Subscribe(t.Context(), "news")
	t.Cleanup(func() { _ = events.Close() })
	if _, err := events.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		commands [][]string // several are a transaction
		once     any
	}{
		{[][]string{{"COPY", "ctx:k", "other"}}, int64(1)},
		{[][]string{{"SORT", "ctx:l", "STORE", "other"}}, int64(1)},
		{[][]string{{"SUNIONSTORE", "other", "ctx:s"}}, int64(1)},
		{[][]string{{"LPUSH", "other", "x"}, {"GET", "ctx:k"}}, []any{int64(1), "v"}},
		{[][]string{{"GET", "ctx:k"}, {"INCR", "other"}}, []any{"v", int64(1)}},
		{[][]string{{"COPY", "ctx:k", "other"}, {"GET", "ctx:k"}}, []any{int64(1), "v"}},
		{[][]string{{"GET", "ctx:k"}, {"PUBLISH", "news", "x"}}, []any{"v", int64(1)}},
		{[][]string{{"EVAL", "return redis.call('incr', 'other')", "0"}, {"GET", "ctx:k"}}, []any{int64(1), "v"}},
	} {
		if lacks.any(t, c.commands) {
			continue
		}
		straight.Del(t.Context(), "other")
		straight.Set(t.Context(), "ctx:k", "v", 0)
		straight.SAdd(t.Context(), "ctx:s", "m")
		straight.RPush(t.Context(), "ctx:l", "1")
		straight.LTrim(t.Context(), "ctx:l", 0, 0)
		for _, key := range []string{"ctx:k", "ctx:l", "ctx:s"} {
			holder.sends("EXISTS", key)
			holder.hears(int64(1))
		}
		send := func(p *party) {
			if len(c.commands) == 1 {
				p.sends(c.commands[0]...)
				return
			}
			p.does("OK", "MULTI")
			for _, command := range c.commands {
				p.does("QUEUED", command...)
			}
			p.sends("EXEC")
		}
		refused, _ := connect(t, "refused", proxy.Addr)
		waits, _ := connect(t, "waits", patient.Addr)
		send(refused)
		refused.hearsError("LOCKED")
		if n := straight.Exists(t.Context(), "other").Val(); n != 0 {
			t.Errorf("%q: refused, and the other key is there", c.commands)
		}
		send(waits)
		key := "ctx:k"
		if i == 1 || i == 2 {
			key = c.commands[0][len(c.commands[0])-1]
			if i == 1 {
				key = "ctx:l"
			}
		}
		lineFor(t, server, key).hasWaiters(1)
		for _, key := range []string{"ctx:k", "ctx:l", "ctx:s"} {
			holder.does(int64(1), "EXPIREAT", key, "99999999999")
		}
		waits.hears(c.once)
		waits.sends("QUIT")
		waits.hears("OK")
		for _, key := range []string{"ctx:k", "ctx:l", "ctx:s"} {
			recordOf(t, server, key).becomesFree()
		}
	}
	if m := <-events.Channel(); m.Payload != "x" {
		t.Errorf("the news is %q", m.Payload)
	}
	select {
	case m := <-events.Channel():
		t.Errorf("a second message: %v", m)
	default:
	}
}

// What the proxy's table does not have may write all the same, if the table is behind. Case 69.
func TestACommandThatTheProxyDoesNotKnowIsNotCarriedOut(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, harness.Enabling(t, "module"))
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	client.does(nil, "GET", "ctx:k")
	for _, unknown := range []string{"JSON.SET ctx:k $ 1", "STRALGO LCS KEYS ctx:l ctx:l", "GET|SET ctx:k"} {
		name, _, _ := strings.Cut(unknown, " ")
		if knows(t, server, strings.ToLower(name)) {
			continue
		}
		if text := client.fails("ERR", strings.Fields(unknown)...); !strings.Contains(strings.ReplaceAll(text, "`", "'"), "unknown command '"+name+"'") {
			t.Errorf("%s: %s, want Redis's own words", unknown, text)
		}
	}
	client.does("OK", "WATCH", "free")
	client.fails("ERR", "JSON.SET", "ctx:k", "$", "1")
	server.Client().Set(t.Context(), "free", "2", 0)
	for range 2 {
		client.does("OK", "MULTI")
		client.does("QUEUED", "SET", "ctx:k", "in vain")
		client.fails("ERR unknown command", "JSON.SET", "ctx:k", "$", "1")
		client.fails("EXECABORT", "EXEC")
	}
	client.does("OK", "SET", "ctx:k", "v")

	if err := server.Client().Do(t.Context(), "MODULE", "LOAD", harness.JSONModule(t)).Err(); err != nil {
		t.Fatal(err)
	}
	client.fails("FENCEDENIED", "JSON.SET", "ctx:j", "$", "1")
	for _, first := range []string{"WATCH", "EXISTS"} {
		client.sends(first, "free")
		client.reply()
		client.does("OK", "MULTI")
		client.does("QUEUED", "SET", "free2", "in vain")
		client.fails("FENCEDENIED", "JSON.SET", "ctx:j", "$", "1")
		client.fails("EXECABORT", "EXEC")
	}
	wantValue(t, server, "free2", "")
	if n := server.Client().Exists(t.Context(), "ctx:j").Val(); n != 0 {
		t.Error("it was carried out")
	}
	client.does("OK", "JSON.SET", "free:j", "$", "1")
}

// Case 61.
func TestATwentyMegabyteValueGoesThroughWhole(t *testing.T) {
	t.Parallel()
	straight, behind := harness.StartRedis(t), harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding()})
	value := bytes.Repeat([]byte("\x00\r\n$-1\r\n+OK\r\n*1\r\n\xff"), 1<<20)
	for _, protocol := range []string{"2", "3"} {
		direct, client := greet(t, straight.Addr, protocol), greet(t, proxy.Addr, protocol)
		for _, command := range [][]string{
			{"SET", "ctx:big", string(value)},
			{"GET", "ctx:big"},
			{"APPEND", "ctx:big", "!"},
			{"SET", "ctx:big", string(value[1:]), "GET"},
			{"MGET", "ctx:big", "ctx:none", "ctx:big"},
		} {
			if want, got := direct.Do(command...), client.Do(command...); !bytes.Equal(got, want) {
				t.Errorf("RESP%s, %.20q: %d bytes that begin with %.20q, want %d with %.20q", protocol, command, len(got), got, len(want), want)
			}
		}
		_ = client.Close() // gives back what MGET has taken
	}
}

// Case 34.
func TestReservedKeysAreRefused(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	session := recordOf(t, server, "ctx:s")
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", "ctx:s")
	before := session.get(session.hold)

	client, _ := connect(t, "client", proxy.Addr)
	for _, command := range [][]string{
		{"GET", session.token},
		{"SET", session.token, "x"},
		{"DEL", session.hold},
		{"UNLINK", "free", session.hold},
		{"EXPIRE", session.hold, "0"},
		{"PERSIST", session.hold},
		{"TTL", session.hold},
		{"TYPE", session.hold},
		{"OBJECT", "ENCODING", session.hold},
		{"DUMP", session.token},
		{"WATCH", session.token},
		{"EXISTS", session.token},
		{"SET", "fence-proxy:", "x"},
		{"SET", "fence-proxy:mine", "x"},
		{"MGET", "free", session.token},
		{"MSET", "free", "x", session.token, "x"},
		{"RENAME", "free", session.token},
		{"RENAME", session.token, "free"},
		{"COPY", session.token, "free"},
		{"ZADD", session.queue, "1", "me"},
		{"ZRANGE", session.queue, "0", "-1"},
		{"BLPOP", "free", session.queue, "0"},
		{"EVAL", "return redis.call('get', KEYS[1])", "1", session.token},
		{"SORT", "free", "GET", "fence-proxy:*"},
		{"SORT", "free", "STORE", session.queue},
		{"XREAD", "STREAMS", session.queue, "0"},
		{"NONSENSE", session.token},
		{"RESTORE", session.token, "0", "x"},
		{"MIGRATE", "127.0.0.1", "1", session.token, "0", "1"},
	} {
		client.fails("FENCEDENIED", command...)
	}
	client.does("OK", "MULTI")
	client.fails("FENCEDENIED", "DEL", session.hold)
	client.fails("EXECABORT", "EXEC")
	if after := session.get(session.hold); after == "" || after != before {
		t.Errorf("the record changed from %q to %q", before, after)
	}
}

// Cases 34 and 67.
func TestReservedKeysDoNotShow(t *testing.T) {
	t.Parallel()
	empty, server := harness.StartRedis(t), harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	holder, _ := connect(t, "holder", proxy.Addr)
	for i := range 300 {
		holder.does(nil, "GET", fmt.Sprintf("ctx:none %d", i))
	}
	if n := server.Client().DBSize(t.Context()).Val(); n != 600 {
		t.Fatalf("%d reserved keys, want a token and a hold for each of 300 sessions", n)
	}
	for _, protocol := range []string{"2", "3"} {
		direct, client := greet(t, empty.Addr, protocol), greet(t, proxy.Addr, protocol)
		for _, command := range [][]string{
			{"RANDOMKEY"},
			{"KEYS", "*"},
			{"KEYS", "fence-proxy:*"},
			{"SCAN", "0", "COUNT", "10000"},
			{"SCAN", "0", "COUNT", "10000", "MATCH", "fence*", "TYPE", "string"},
			{"SCAN", "x"},
			{"KEYS"},
		} {
			if got, want := client.Do(command...), direct.Do(command...); !bytes.Equal(got, want) {
				t.Errorf("RESP%s, %q with nothing but reserved keys: %.200q, want %q as on an empty server", protocol, command, got, want)
			}
		}
	}

	var want []string
	for i := range 300 {
		want = append(want, fmt.Sprintf("free:%d", i))
		server.Client().Set(t.Context(), want[i], "v", 0)
	}
	slices.Sort(want)
	client, _ := connect(t, "client", proxy.Addr)
	all := func(name string, got []string) {
		t.Helper()
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%s lists %d keys, want the %d unreserved ones", name, len(got), len(want))
		}
	}
	client.sends("KEYS", "*")
	all("KEYS", texts(client.reply()))
	var scanned []string
	for cursor := "0"; ; {
		client.sends("SCAN", cursor, "COUNT", "7")
		page, _ := client.reply().([]any)
		scanned = append(scanned, texts(page[1])...)
		if cursor, _ = page[0].(string); cursor == "0" {
			break
		}
	}
	all("SCAN", scanned)
	for range 50 {
		client.sends("RANDOMKEY")
		if key := fmt.Sprint(client.reply()); !strings.HasPrefix(key, "free:") {
			t.Errorf("RANDOMKEY: %q", key)
		}
	}
}

// texts are the strings of a reply that lists them.
func texts(reply any) []string {
	list, _ := reply.([]any)
	all := make([]string, len(list))
	for i, e := range list {
		all[i], _ = e.(string)
	}
	return all
}

// Case 61.
func TestTenThousandPipelinedCommandsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	for _, guarded := range []int{0, 400} {
		t.Run(fmt.Sprintf("%d of them guarded", guarded), func(t *testing.T) {
			empty(t, server)
			var send strings.Builder
			var want []string
			add := func(reply string, args ...string) {
				want = append(want, reply)
				send.WriteString(harness.Encode(args...))
			}
			for i := range 10_000 - guarded {
				n := strconv.Itoa(i)
				switch i % 4 {
				case 0:
					add(fmt.Sprintf("$%d\r\n%s\r\n", len(n), n), "ECHO", n)
				case 1:
					add("+OK\r\n", "SET", "free", n)
				case 2:
					n := strconv.Itoa(i - 1)
					add(fmt.Sprintf("$%d\r\n%s\r\n", len(n), n), "GET", "free")
				case 3:
					add(fmt.Sprintf(":%d\r\n", i/4+1), "INCR", "counter")
				}
				if guarded > 0 && i%24 == 0 {
					add(fmt.Sprintf(":%d\r\n", i/24+1), "RPUSH", "ctx:s", n)
				}
			}
			conn := harness.Dial(t, proxy.Addr)
			sent := make(chan error, 1)
			go func() {
				_, err := conn.Write([]byte(send.String()))
				sent <- err
			}()
			for i, w := range want {
				if got := conn.ReadReply(); string(got) != w {
					t.Fatalf("reply %d of %d is %q, want %q", i, len(want), got, w)
				}
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Case 49.
func TestLocksArePerDatabase(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	line := lineFor(t, server, "ctx:s")
	line.redis = server.Client(func(o *redis.Options) { o.DB = 1 }) // all below is in database 1
	inOne := func(name string) (*party, *harness.RawConn) {
		p, conn := connect(t, name, proxy.Addr)
		p.does("OK", "SELECT", "1")
		return p, conn
	}
	zero, _ := connect(t, "the client in database 0", proxy.Addr)
	zero.does(nil, "GET", line.key)
	a, _ := inOne("A")
	a.fails("ERR", "SELECT", "99")
	a.does(nil, "GET", line.key) // without waiting for the one in database 0
	a.does("OK", "SET", line.key, "one")
	zero.does("OK", "SET", line.key, "zero")

	a.does("one", "GET", line.key)
	zero.does("OK", "MULTI")
	zero.does("QUEUED", "SELECT", "1")
	zero.does([]any{"OK"}, "EXEC")
	zero.sends("GET", line.key)
	line.hasWaiters(1)
	b, _ := inOne("B")
	b.sends("APPEND", line.key, ", appended") // a blind write
	line.hasWaiters(2)
	c, gone := inOne("C")
	c.sends("GET", line.key)
	line.hasWaiters(3)
	_ = gone.Close()
	line.hasWaiters(2)
	a.does("OK", "SET", line.key, "two")
	zero.hears("two")
	zero.does("OK", "SET", line.key, "three")
	b.hears(int64(len("three, appended")))
	line.isEmpty()

	d, gone := inOne("D")
	d.does("three, appended", "GET", line.key)
	_ = gone.Close()
	line.becomesFree()

	// One connection may have a sequence in each.
	e, _ := inOne("E")
	e.does("three, appended", "GET", line.key)
	e.does("OK", "SELECT", "0")
	e.does("zero", "GET", line.key)
	e.does("OK", "SELECT", "1")
	e.does("OK", "SET", line.key, "four")
	e.does("OK", "SELECT", "0")
	e.does("OK", "SET", line.key, "zero again")
	wantValue(t, server, line.key, "zero again")
}

// Case 62.
func TestInlineCommandsAreGuardedLikeOthers(t *testing.T) {
	t.Parallel()
	server, straight := harness.StartRedis(t, harness.WithPassword("pw")), harness.StartRedis(t, harness.WithPassword("pw"))
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("60s")})
	direct, inline := harness.Dial(t, straight.Addr), harness.Dial(t, proxy.Addr)
	for _, text := range []string{
		"AUTH pw\r\nSET ctx:k v\r\n", "GET ctx:k\nSET ctx:k w\n", "\r\n\r\n  GET   ctx:k \r\nPING\r\n",
		"set ctx:k \"a \\x00\\n b\" \r\nGET 'ctx:k'\r\n", "SET ctx:k\r\nNONSENSE free\r\n",
		"GET ctx:k\r\n*3\r\n$3\r\nSET\r\n$5\r\nctx:k\r\n$1\r\nx\r\n",
	} {
		direct.Send(text)
		inline.Send(text)
		for range 2 {
			if want, got := direct.ReadReply(), inline.ReadReply(); !bytes.Equal(got, want) {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		}
	}

	line := lineFor(t, server, "ctx:k")
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does("x", "GET", line.key)
	reader := line.joinWith("an inline GET", proxy, "GET ctx:k\r\n")
	writer := line.joinWith("an inline SET", proxy, "SET ctx:k inline\r\n")
	holder.does("OK", "SET", line.key, "holder")
	reader.hears("holder")
	reader.does("OK", "SET", line.key, "reader")
	writer.hears("OK")
	wantValue(t, server, line.key, "inline")

	for _, conn := range []*harness.RawConn{direct, inline} {
		conn.Send("GET \"ctx:k\r\n")
	}
	if want, got := direct.ReadReply(), inline.ReadReply(); !bytes.Equal(got, want) {
		t.Errorf("an unbalanced quote: got %q, want %q", got, want)
	}
	inline.ExpectClosed()
}

// Cases 55 and 57.
func TestSubscribersMonitorsAndBlockedClientsAreServedAsByRedis(t *testing.T) {
	t.Parallel()
	straight, behind := harness.StartRedis(t), harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: behind, ConfigYAML: guarding()})
	// both does the same at both servers and compares what they say.
	both := func(t *testing.T, direct, client *harness.RawConn, replies int, commands ...[]string) {
		t.Helper()
		for _, command := range commands {
			direct.Send(harness.Encode(command...))
			client.Send(harness.Encode(command...))
		}
		for range replies {
			if want, got := direct.ReadReply(), client.ReadReply(); !bytes.Equal(got, want) {
				t.Errorf("%q: got %q, want %q", commands, got, want)
			}
		}
	}
	atBoth := func(t *testing.T, command ...any) {
		t.Helper()
		for _, server := range []*harness.Redis{straight, behind} {
			if err := server.Client().Do(t.Context(), command...).Err(); err != nil {
				t.Fatalf("%v: %v", command, err)
			}
		}
	}
	for _, protocol := range []string{"2", "3"} {
		t.Run("SUBSCRIBE RESP"+protocol, func(t *testing.T) {
			direct, client := greet(t, straight.Addr, protocol), greet(t, proxy.Addr, protocol)
			both(t, direct, client, 4, []string{"GET", "free"}, []string{"SUBSCRIBE", "a", "b"}, []string{"PSUBSCRIBE", "p*"})
			atBoth(t, "PUBLISH", "a", "for a")
			atBoth(t, "PUBLISH", "pattern", "for p*")
			both(t, direct, client, 2)
			both(t, direct, client, 2, []string{"PING"}, []string{"GET", "free"})
			both(t, direct, client, 4, []string{"UNSUBSCRIBE", "b", "a"}, []string{"PUNSUBSCRIBE"}, []string{"PING", "still there"})
		})
		t.Run("BLPOP RESP"+protocol, func(t *testing.T) {
			direct, client := greet(t, straight.Addr, protocol), greet(t, proxy.Addr, protocol)
			both(t, direct, client, 0, []string{"BLPOP", "jobs", "0"}, []string{"PING"})
			for _, server := range []*harness.Redis{straight, behind} {
				look := server.Client()
				harness.Eventually(t, 0, func() bool {
					return strings.Contains(look.Info(t.Context(), "clients").Val(), "blocked_clients:1\r\n")
				}, "a client is blocked")
			}
			other, _ := connect(t, "another client", proxy.Addr)
			other.does("OK", "SET", "ctx:s", "v")
			atBoth(t, "RPUSH", "jobs", "job")
			both(t, direct, client, 2)
			both(t, direct, client, 3, []string{"BLPOP", "jobs", "0.01"}, []string{"XREAD", "BLOCK", "1", "STREAMS", "events", "$"}, []string{"PING"})
		})
	}
	t.Run("MONITOR", func(t *testing.T) {
		monitor := harness.Dial(t, proxy.Addr)
		if reply := monitor.Do("MONITOR"); string(reply) != "+OK\r\n" {
			t.Fatalf("MONITOR: %q", reply)
		}
		other, _ := connect(t, "another client", proxy.Addr)
		other.does("OK", "SET", "free", "seen")
		for !bytes.Contains(monitor.ReadReply(), []byte(`"SET" "free" "seen"`)) {
		}
	})
}

// Case 50: the fence uses WATCH and MULTI on the client's own connection to Redis.
func TestTheFencesWatchAndTheClientsDoNotMix(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	straight := server.Client()
	// begin returns a client in the middle of a sequence.
	begin := func(t *testing.T) *party {
		t.Helper()
		client, _ := connect(t, "client", proxy.Addr)
		client.does("OK", "SET", "ctx:s", "v")
		client.does("v", "GET", "ctx:s")
		return client
	}
	// touched is what another client's refused write does to the record.
	touched := func(t *testing.T) {
		t.Helper()
		session := recordOf(t, server, "ctx:s")
		if !straight.Expire(t.Context(), session.token, patience).Val() {
			t.Fatal("there is no record")
		}
	}

	t.Run("a transaction in the middle of a sequence is not the fence's", func(t *testing.T) {
		client := begin(t)
		touched(t)
		client.does("OK", "MULTI")
		client.does("QUEUED", "SET", "free", "1")
		client.does([]any{"OK"}, "EXEC")
		client.does("OK", "SET", "ctx:s", "w")
	})
	t.Run("a client's WATCH outlives its guarded reads", func(t *testing.T) {
		client := begin(t)
		client.does("OK", "WATCH", "free")
		client.does("v", "GET", "ctx:s")
		straight.Set(t.Context(), "free", "2", 0)
		client.does("OK", "MULTI")
		client.does("QUEUED", "SET", "free", "3")
		client.does(nil, "EXEC")
		client.does("OK", "SET", "ctx:s", "w")
	})
	t.Run("a client's WATCH does not mind the record", func(t *testing.T) {
		client := begin(t)
		client.does("OK", "WATCH", "free")
		touched(t)
		client.does("OK", "MULTI")
		client.does("QUEUED", "SET", "free", "4")
		client.does([]any{"OK"}, "EXEC")
		client.does("OK", "SET", "ctx:s", "w")
	})
	for _, end := range [][]string{{"MULTI", "DISCARD"}, {"UNWATCH"}} {
		t.Run(strings.Join(end, " and ")+" ends a client's WATCH", func(t *testing.T) {
			client := begin(t)
			client.does("OK", "WATCH", "free")
			for _, command := range end {
				client.does("OK", command)
			}
			straight.Set(t.Context(), "free", "5", 0)
			client.does("OK", "SET", "ctx:s", "w")
			client.does("OK", "MULTI")
			client.does("QUEUED", "SET", "free", "6")
			client.does([]any{"OK"}, "EXEC")
		})
	}
}

func TestRANDOMKEYFindsAKeyAmongManyRecords(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	client, _ := connect(t, "client", proxy.Addr)
	records := server.Client().Pipeline()
	for i := range 20_000 {
		records.Set(t.Context(), fmt.Sprint("fence-proxy:", i), "", 0)
	}
	if _, err := records.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	client.does(nil, "RANDOMKEY")
	client.does("OK", "MSET", "a", "1", "b", "2")
	found := map[any]int{}
	for n := range 200 {
		if n < 100 {
			client.sends("RANDOMKEY")
			found[client.reply()]++
			continue
		}
		client.does("OK", "MULTI")
		client.does("QUEUED", "RANDOMKEY")
		client.sends("EXEC")
		found[client.reply().([]any)[0]]++
	}
	if len(found) != 2 || found["a"] == 0 || found["b"] == 0 {
		t.Errorf("of two keys RANDOMKEY says %v", found)
	}
}
