//go:build integration

package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// What a node has not carried out is sent again. A read that came behind it in the pipeline, and that the node has answered
// meanwhile, must not pass for one that was carried out behind it.
func TestAReadBehindWhatIsSentAgainIsCarriedOutBehindIt(t *testing.T) {
	t.Parallel()
	const counts = "return(redis.call('incr',KEYS[#KEYS]))"
	t.Run("a node has forgotten a script", func(t *testing.T) {
		t.Parallel()
		of := harness.StartCluster(t, 3, 0)
		c := open(t, of)
		l := dial(t, c)
		digest, err := client(t, c).ScriptLoad(t.Context(), counts).Result()
		if err != nil {
			t.Fatal(err)
		}
		forget := func() {
			if err := of.Of("{k}n").Client().ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for n := 1; n < 5; n++ {
			l.expect("EVALSHA "+digest+" 1 {k}n", fmt.Sprintf(":%d\r\n", n), "GET {k}n", fmt.Sprintf("$1\r\n%d\r\n", n), "GETEX {k}n", fmt.Sprintf("$1\r\n%d\r\n", n))
			forget()
			key := fmt.Sprint("{k}new", n) // which all nodes are asked for
			l.expect("EVALSHA "+digest+" 1 "+key, ":1\r\n", "KEYS "+key, fmt.Sprintf("*1\r\n$%d\r\n%s\r\n", len(key), key))
			forget()
		}
	})
	t.Run("a slot is on its way", func(t *testing.T) {
		t.Parallel()
		of := harness.StartCluster(t, 3, 0)
		l := dial(t, open(t, of))
		l.expect("MSET {k}a 1 {k}n 1", ok, "GET {k}n", "$1\r\n1\r\n")
		from, slot, to := of.Of("{k}a"), of.Slot("{k}a"), elsewhere(of, "{k}a")
		of.BeginMigration(slot, to)
		of.MoveKeys(slot, to, "{k}a")
		l.send("EVAL "+counts+" 2 {k}a {k}n", "GET {k}n", "GETEX {k}n", "SORT_RO {k}list", "GET other", "MGET {k}n other", "MULTI", "GET {k}n", "EXEC", "WATCH {k}n", "GET {k}n", "MULTI", "TIME", "GET {k}n", "EXEC")
		harness.Eventually(t, 0, func() bool {
			return strings.Contains(from.Client().Info(t.Context(), "errorstats").Val(), "errorstat_TRYAGAIN:count=") &&
				from.Client().Get(t.Context(), "{k}n").Val() == "1"
		}, "the script has to be sent again")
		of.MoveKeys(slot, to, "{k}n")
		of.EndMigration(slot, to)
		for i, want := range []string{":2\r\n", "$1\r\n2\r\n", "$1\r\n2\r\n", "*0\r\n", "$-1\r\n", "*2\r\n$1\r\n2\r\n$-1\r\n", ok, queued, "*1\r\n$1\r\n2\r\n", ok, "$1\r\n2\r\n", ok, queued, queued, "*-1\r\n"} {
			if got := l.read(); got != want {
				t.Errorf("reply %d is %q, want %q", i, got, want)
			}
		}
		l.expect("WATCH {k}n", ok, "MULTI", ok, "INCR {k}n", queued, "EXEC", "*1\r\n:3\r\n")
	})
}
