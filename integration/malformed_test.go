//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Calls whose keys nobody can tell, since they are malformed. Redis refuses them in its own words.
const malformedCalls = `
SINTERCARD 5 ctx:a
SINTERCARD x ctx:a
SINTERCARD 1 ctx:a LIMIT
SINTERCARD 1 ctx:a NONSENSE
LMPOP 9 ctx:l LEFT
LMPOP 1 ctx:l SIDEWAYS
LMPOP 0 ctx:l LEFT
LMPOP 1 ctx:l LEFT COUNT x
ZMPOP 2 ctx:z MIN
ZMPOP 1 ctx:z MIN COUNT
ZUNION 3 ctx:z
ZUNION x ctx:z
ZINTER 1 ctx:z WEIGHTS
ZDIFF 2 ctx:z
ZUNIONSTORE ctx:z 2 ctx:l
ZINTERSTORE ctx:z x ctx:l
ZINTERCARD 0 ctx:z
GEORADIUS ctx:geo 15 37 200
GEORADIUS ctx:geo 15 37 200 km NONSENSE
GEORADIUS ctx:geo 15 37 200 km STORE
GEORADIUSBYMEMBER ctx:geo a 200 km STORE
BITFIELD ctx:b NONSENSE
XREAD STREAMS ctx:x
XREAD STREAMS ctx:x ctx:y 0
XREADGROUP GROUP g c STREAMS ctx:x
XREADGROUP GROUP g STREAMS ctx:x 0
SORT ctx:l NONSENSE
SORT ctx:l STORE
SORT_RO ctx:l STORE ctx:m
EVAL "return 1" 2 ctx:a
EVAL "return 1" x ctx:a
EVAL "return 1" -1 ctx:a
EVALSHA ffffffffffffffffffffffffffffffffffffffff 2 ctx:a
FCALL nothing 3 ctx:a
FCALL nothing x ctx:a
MIGRATE 127.0.0.1 1 ctx:a 0 1 NONSENSE
OBJECT NONSENSE ctx:a
MEMORY NONSENSE ctx:a
XGROUP NONSENSE ctx:a
XINFO NONSENSE ctx:a
ZADD ctx:z
GET ctx:a ctx:b
LCS ctx:a
BITOP NOT ctx:b
MOVE ctx:a nonsense
MOVE ctx:a 0
COPY ctx:a ctx:b DB nonsense
COPY ctx:a ctx:b DB
COPY ctx:a ctx:a DB 0
`

func TestMalformedCallsAreRefusedByRedis(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding("wait: 0s"))
	for _, protocol := range []string{"2", "3"} {
		p := w.meet(t, "client", protocol)
		for _, setup := range table(t, `
			RPUSH ctx:l 1 2
			SET ctx:a v
			ZADD ctx:z 1 a
			DEL ctx:l ctx:a ctx:z`) {
			p.says(1, setup.args)
		}
		for _, c := range table(t, malformedCalls) {
			p.says(1, c.args)
		}
	}
}

// What may be a key counts as one: a malformed call is no way around the fence. Case 69.
func TestAMalformedCallWaitsForTheHolderOfWhatItNames(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("0s")})
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", "ctx:a")
	client, _ := connect(t, "client", proxy.Addr)
	waits := "LOCKED"
	if !knows(t, server, "lmpop") {
		waits = "ERR unknown command"
	}
	client.fails(waits, "LMPOP", "5", "ctx:a", "LEFT")
	client.fails("LOCKED", "ZUNIONSTORE", "ctx:z", "2", "ctx:a")
	client.fails("FENCEDENIED", "ZUNIONSTORE", "free", "9", "fence-proxy:{ctx:ctx:a}:h")
	client.fails("ERR unknown command", "NONSENSE", "ctx:a")
	client.fails("LOCKED", "SORT", "ctx:a", "BY", "w_*", "NEWER")
	holder.does("OK", "SET", "ctx:a", "mine")
	client.fails("ERR", "LMPOP", "5", "ctx:a", "LEFT")
	client.does("mine", "GET", "ctx:a")
}
