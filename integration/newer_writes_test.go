//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 69: commands and options that came after this proxy's own table are known by the server's. Where the server has them they
// are fenced; where not, it refuses them itself, and nothing is written either.
func TestWritesThatCameLaterAreFenced(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	straight := server.Client()
	proxyA, proxyB := two(t, server, append([]string{"mode: fence"}, longHolds...)...)
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	known := 0
	for _, c := range []struct{ read, others, write string }{
		{"GET @s", "SET @s B's", "SET @s A's IFEQ B's"},
		{"GET @s", "SET @s B's", "SET @s A's XX GET"},
		{"GET @s", "SET @s B's", "GETDEL @s"},
		{"GET @s", "SET @s B's", "DELEX @s IFEQ B's"},
		{"GET @s", "SET @s B's", "DELIFEQ @s B's"},
		{"GET @s", "SET @s B's", "MSETEX 1 @s A's EX 100"},
		{"GET @s", "SET @s B's", "COPY @other @s REPLACE"},
		{"HGETALL @h", "HSET @h f B's", "HGETDEL @h FIELDS 1 f"},
		{"HGETALL @h", "HSET @h f B's", "HSETEX @h EX 100 FIELDS 1 f A's"},
		{"LRANGE @l 0 -1", "RPUSH @l B's", "LMPOP 1 @l LEFT"},
		{"ZRANGE @z 0 -1", "ZADD @z 1 B's", "ZMPOP 1 @z MIN"},
		{"XRANGE @x - +", "XADD @x 1-1 f B's", "XDELEX @x KEEPREF IDS 1 1-1"},
		{"VCARD @v", "VADD @v VALUES 2 1 1 B's", "VREM @v B's"},
	} {
		at := func(prefix, text string) []string { return strings.Fields(strings.ReplaceAll(text, "@", prefix)) }
		says := func(text string) error {
			args := []any{}
			for _, word := range at("free:", text) {
				args = append(args, word)
			}
			return straight.Do(t.Context(), args...).Err()
		}
		t.Run(c.write, func(t *testing.T) {
			straight.FlushAll(t.Context())
			straight.Set(t.Context(), "free:other", "v", 0)
			straight.Set(t.Context(), "ctx:other", "v", 0)
			if err := says(c.others); err != nil {
				t.Skip("this server: ", err)
			}
			a.sends(at("ctx:", c.read)...)
			a.reply()
			b.sends(at("ctx:", c.others)...)
			if refusal, failed := b.reply().(harness.ReplyError); failed {
				t.Fatal(refusal)
			}
			before := straight.Dump(t.Context(), at("ctx:", c.others)[1]).Val()
			if refusal := says(c.write); refusal != nil && !strings.Contains(refusal.Error(), "nil") {
				a.sends(at("ctx:", c.write)...)
				if _, failed := a.reply().(harness.ReplyError); !failed { // Redis's, or that it is stale
					t.Errorf("the server says %v, and the client hears nothing of it", refusal)
				}
				t.Log("this server: ", refusal)
			} else {
				known++
				a.fails("FENCED", at("ctx:", c.write)...)
			}
			if after := straight.Dump(t.Context(), at("ctx:", c.others)[1]).Val(); after != before {
				t.Errorf("the stale write has changed the key")
			}
			a.sends(at("ctx:", c.read)...)
			a.reply()
			if refusal := says(c.write); refusal == nil {
				a.sends(at("ctx:", c.write)...)
				if reply := a.reply(); isError(reply, "FENCED") {
					t.Errorf("what was read again is refused: %v", reply)
				}
			}
		})
	}
	t.Logf("this server knows %d of them", known)
}
