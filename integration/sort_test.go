//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// SORT reads keys that its call does not name.

func TestSortByPatternsSoundsAsAtRedis(t *testing.T) {
	t.Parallel()
	for _, config := range []string{guarding("wait: 0s"), guarding("mode: fence"), guarding("mode: observe")} {
		w := startTwins(t, config)
		for _, protocol := range []string{"2", "3"} {
			w.one(t, protocol, `
				A: RPUSH ctx:l 1 2 3 ; RPUSH free 3 1 ; MSET ctx:w_1 3 ctx:w_2 2 ctx:w_3 1 ctx:d_1 a ctx:d_3 c w_1 2 w_3 1 => 3
				A: HSET ctx:h_1 f x ; HSET ctx:h_2 f y => 2
				A: SORT ctx:l BY ctx:w_* GET # GET ctx:d_* ; SORT ctx:l BY w_* GET ctx:h_*->f ; SORT_RO free BY ctx:w_* => 3
				A: SORT free BY w_* GET c*:d_* GET ctx:d_*-> ; SORT ctx:l BY nosort ; SORT ctx:l BY ctx:w_* DESC LIMIT 0 1 => 3
				A: SORT ctx:l BY ctx:w_* GET ctx:d_* STORE ctx:out ; LRANGE ctx:out 0 -1 ; DEL ctx:out => 3
				A: SORT ctx:l BY ctx:w_* STORE free2 ; LRANGE free2 0 -1 ; SORT free GET ctx:d_* STORE free2 => 3
				A: MULTI ; SORT free BY ctx:w_* ; SET other x ; EXEC => 4
				A: MULTI ; SORT ctx:l BY nosort GET ctx:e_* ; GET ctx:e_1 ; SET ctx:e_1 b ; EXEC => 5
				A: SORT ctx:l BY ctx:v_* GET ; SORT ctx:l BY x NONSENSE ; SORT ctx:l LIMIT x 1 BY ctx:w_* => 3`)
		}
	}
}

func TestWhatWasReadByAPatternIsNotWrittenBlindly(t *testing.T) {
	t.Parallel()
	sorts := map[string][][]string{
		"by a pattern of a guarded prefix": {{"SORT", "free", "GET", "ctx:d_*"}},
		"of fields":                        {{"SORT", "free", "GET", "ctx:d_*->f"}},
		"by one that may be":               {{"SORT_RO", "free", "GET", "c*1"}},
		"of a guarded list":                {{"SORT", "ctx:l", "BY", "ctx:d_*"}},
		"to store it":                      {{"SORT", "ctx:l", "GET", "ctx:d_*", "STORE", "out"}},
		"in a transaction":                 {{"MULTI"}, {"SORT", "ctx:l", "GET", "ctx:d_*"}, {"EXEC"}},
		"in one that is not guarded":       {{"MULTI"}, {"SORT", "free", "GET", "ctx:d_*"}, {"EXEC"}},
	}
	for _, mode := range []string{"lock", "fence", "auto"} {
		for name, sort := range sorts {
			t.Run(mode+" "+name, func(t *testing.T) {
				server := harness.StartRedis(t)
				if newLacking(t, server).any(t, sort) {
					t.Skip("this server lacks it")
				}
				proxyA, proxyB := two(t, server, "mode: "+mode)
				a, conn := connect(t, "A", proxyA.Addr)
				b, _ := connect(t, "B", proxyB.Addr)
				for _, key := range []string{"free", "ctx:l"} {
					server.Client().RPush(t.Context(), key, "1", "tx:d_1")
				}
				readsByPattern := func() {
					for _, command := range sort {
						conn.Do(command...)
					}
				}
				readsByPattern()
				b.does("OK", "SET", "ctx:d_1", "B's")
				a.does("OK", "SET", "ctx:other", "not read by the pattern, or blind")
				refusal := a.fails("FENCED", "SET", "ctx:d_1", "A's, stale")
				if !strings.Contains(refusal, "by itself") {
					t.Errorf("it does not say what to do: %s", refusal)
				}
				wantValue(t, server, "ctx:d_1", "B's")
				a.does("OK", "SET", "ctx:d_1", "A's, which knows") // it was told once

				readsByPattern()
				a.does("A's, which knows", "GET", "ctx:d_1")
				a.does("OK", "SET", "ctx:d_1", "A's")
				readsByPattern()
				a.does(int64(4), "APPEND", "ctx:d_1", "+") // never stale
				a.does("OK", "MULTI")
				a.does("QUEUED", "SET", "ctx:d_1", "A's, stale")
				a.does("QUEUED", "SET", "free2", "A's")
				a.fails("FENCED", "EXEC")
				wantValue(t, server, "free2", "")
				wantValue(t, server, "ctx:d_1", "A's+")
			})
		}
	}
}

func TestWhatOneConnectionOfAClientReadByAPatternIsNotWrittenBlindlyOverAnother(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"auto", "client", "proxy", "connection"} {
		t.Run(owner, func(t *testing.T) {
			_, proxy := startOwners(t, "owner: "+owner)
			c := owners(t, proxy, "first", "second")
			c[0].does(int64(1), "RPUSH", "free", "1")
			c[0].does([]any{nil}, "SORT", "free", "GET", "ctx:*")
			if owner == "connection" {
				c[1].does("OK", "SET", "ctx:1", "v") // who is somebody else
				return
			}
			c[1].fails("FENCED", "SET", "ctx:1", "v")
			c[1].does("OK", "SET", "ctx:1", "v")
		})
	}
}

// Patterns that reach no guarded key mean nothing.
func TestPatternsOfOtherKeysAreOfNoConcern(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("readers: [dashboard]") +
		"  - name: free\n    prefix: \"ctx:free:\"\n    mode: pass\n"})
	a, _ := connect(t, "A", proxy.Addr)
	a.does(int64(1), "RPUSH", "ctx:l", "1")
	a.does([]any{"1"}, "SORT", "ctx:l", "BY", "w_*", "GET", "#")
	a.does([]any{nil}, "SORT", "ctx:l", "BY", "nosort", "GET", "ctx:free:*")
	a.does("OK", "SET", "ctx:1", "v")
	a.does("OK", "SET", "ctx:free:1", "v")
	a.fails("FENCEDENIED", "SORT", "ctx:l", "GET", "fence-proxy:*")

	reader, _ := connect(t, "a reader", proxy.Addr)
	reader.does("OK", "CLIENT", "SETNAME", "dashboard")
	reader.does([]any{"v"}, "SORT", "ctx:l", "GET", "ctx:*")
	reader.does("OK", "SET", "ctx:1", "w")
}
