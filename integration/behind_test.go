//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// What a client has sent before it could hear of a refusal goes back to the same reads as what was refused.
func TestWhatWasSentBehindAStaleWriteIsRefusedWithIt(t *testing.T) {
	t.Parallel()
	encode := func(commands string) (text string, n int) {
		for line := range strings.SplitSeq(commands, " ; ") {
			text += harness.Encode(strings.Fields(line)...)
			n++
		}
		return text, n
	}
	for _, mode := range enforcing {
		for name, c := range map[string]struct{ sent, heard string }{
			"writes":                         {"SET ctx:s:1 stale ; SET ctx:s:2 stale ; SET free x", "FENCED FENCED OK"},
			"a write behind a read":          {"SET ctx:s:1 stale ; GET ctx:s:2 ; SET ctx:s:2 stale", "FENCED B's FENCED"},
			"an append":                      {"SET ctx:s:1 stale ; APPEND ctx:s:2 + ; SET ctx:s:2 stale", "FENCED 4 FENCED"},
			"another session":                {"SET ctx:s:1 stale ; SET ctx:t:1 fresh", "FENCED OK"},
			"a transaction":                  {"SET ctx:s:1 stale ; MULTI ; SET ctx:s:2 stale ; SET free x ; EXEC", "FENCED OK QUEUED QUEUED FENCED"},
			"transactions":                   {"MULTI ; SET ctx:s:1 stale ; EXEC ; MULTI ; SET ctx:s:2 stale ; EXEC", "OK QUEUED FENCED OK QUEUED FENCED"},
			"a write behind a refused read":  {"GET ctx:s:2 ; SET ctx:s:2 stale", ""},
			"one that is to be carried once": {"SET ctx:s:1 stale ; FENCE.ONCE id 1m SET ctx:s:2 stale", "FENCED FENCED"},
		} {
			t.Run(mode+", "+name, func(t *testing.T) {
				server := harness.StartRedis(t)
				proxyA, proxyB := two(t, server, append(longHolds, "mode: "+mode, `session: "ctx:<session>:*"`)...)
				a, conn := connect(t, "A", proxyA.Addr)
				b, _ := connect(t, "B", proxyB.Addr)
				record := recordOf(t, server, "s")
				a.does(nil, "GET", "ctx:s:1")
				a.does(nil, "GET", "ctx:s:2")
				record.loses(record.hold) // as if the lease had ended
				b.does("OK", "MSET", "ctx:s:1", "B's", "ctx:s:2", "B's")
				text, n := encode(c.sent)
				conn.Send(text)
				var heard []string
				for range n {
					heard = append(heard, written(a.reply()))
				}
				got := strings.Join(heard, " ")
				if c.heard == "" { // where a read reports the loss, what is behind it is stale, too; else it reads anew, and too late
					if got != "FENCED FENCED" && got != "B's FENCED" {
						t.Errorf("A hears %s", got)
					}
				} else if got != c.heard {
					t.Errorf("A hears %s, want %s", got, c.heard)
				}
				if value := server.Client().Get(t.Context(), "ctx:s:2").Val(); !strings.HasPrefix(value, "B's") {
					t.Errorf("the value is %q: an update that was acknowledged is lost", value)
				}
				a.sends("GET", "ctx:s:2") // now it knows
				a.reply()
				a.does("OK", "SET", "ctx:s:2", "A's, which knows")
			})
		}
	}
}
