//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 73: two users through one proxy, in all that a client may say. Each hears what it would hear from Redis, in its words.
func TestTwoUsersKeepTheirRightsInTransactionsAndScripts(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding("mode: fence", "scripts: allow"))
	for _, server := range []*harness.Redis{w.straight, w.behind} {
		allow(t, server, "reader", "+get +mget +exists +hello +auth +ping +info %R~ctx:* %R~free:* "+guardRights(t))
		allow(t, server, "writer", "+get +set +del +append +rpush +lpop +blpop +hello +auth +ping ~ctx:* ~free:* "+guardRights(t))
	}
	login := map[string]string{"AUTH": "AUTH %u pw", "HELLO": "HELLO %p AUTH %u pw"}
	for how, words := range login {
		for _, protocol := range []string{"2", "3"} {
			as := func(user string) string {
				return strings.NewReplacer("%u", user, "%p", protocol).Replace(words)
			}
			t.Run(how+" RESP"+protocol, func(t *testing.T) {
				empty(t, w.straight)
				empty(t, w.behind)
				w.plays(t, protocol, `
					W: `+as("writer")+` => 1
					R: `+as("reader")+` => 1
					R: GET ctx:a ; GET free:a ; GET other ; INFO nonsense => 4
					R: APPEND ctx:a v ; RPUSH ctx:l v ; APPEND free:a v => 3
					W: SET ctx:a v ; GET ctx:a ; APPEND ctx:a w ; RPUSH ctx:l v ; LPOP ctx:l => 5
					W: SET other v ; GET other ; INFO nonsense ; MGET ctx:a free:a => 4
					R: GET ctx:a ; MGET ctx:a free:a ; MGET ctx:a other => 3
					R: MULTI ; GET ctx:a ; APPEND ctx:a v ; EXEC => 4
					R: MULTI ; GET ctx:a ; GET free:a ; EXEC => 4
					R: MULTI ; APPEND free:a v ; EXEC => 3
					W: MULTI ; GET ctx:a ; SET ctx:a x ; SET free:a x ; EXEC => 5
					W: MULTI ; SET ctx:a y ; SET other y ; EXEC => 4
					W: MULTI ; INFO nonsense ; EXEC => 3
					W: WATCH ctx:a => 1
					W: MULTI ; SET ctx:a z ; EXEC => 3
					R: WATCH other => 1
					R: EVAL "return redis.call('get', KEYS[1])" 1 ctx:a => 1
					R: EVAL "return redis.call('get', KEYS[1])" 1 free:a => 1
					R: EVAL "return redis.pcall('append', KEYS[1], 'v')" 1 free:a => 1
					W: EVAL "return redis.call('set', KEYS[1], 'v')" 1 other => 1
					W: EVAL "return redis.pcall('info')" 0 => 1
					W: BLPOP ctx:l 0.01 ; BLPOP other 0.01 => 2
					R: BLPOP ctx:l 0.01 => 1
					# One becomes the other, on a live socket.
					R: `+as("writer")+` => 1
					R: GET ctx:r ; SET ctx:r r ; SET free:r r => 3
					W: `+as("reader")+` => 1
					W: GET ctx:a ; APPEND ctx:a v ; APPEND free:a v => 3
					R: AUTH reader wrong => 1
					R: SET ctx:r s ; GET other => 2`)
				for _, key := range []string{"ctx:a", "free:a", "ctx:r", "free:r", "other"} {
					direct, proxied := w.straight.Client().Get(t.Context(), key).Val(), w.behind.Client().Get(t.Context(), key).Val()
					if direct != proxied {
						t.Errorf("%s is %q, want %q", key, proxied, direct)
					}
				}
			})
		}
	}
}

// Rights that change, and users that go, while their clients are connected and have read guarded keys.
func TestAUserThatIsChangedWhileItsClientsAreConnected(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding("mode: fence"))
	for _, server := range []*harness.Redis{w.straight, w.behind} {
		allow(t, server, "writer", "+get +set +acl|whoami ~ctx:* "+guardRights(t))
	}
	for _, protocol := range []string{"2", "3"} {
		change := func(words ...any) {
			t.Helper()
			for _, server := range []*harness.Redis{w.straight, w.behind} {
				if err := server.Client().Do(t.Context(), append([]any{"ACL"}, words...)...).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		p := w.meet(t, "writer", protocol)
		says := func(words string) {
			t.Helper()
			p.says(1, strings.Fields(words))
		}
		says("AUTH writer pw")
		says("GET ctx:a")
		change("SETUSER", "writer", "resetkeys", "~fence-proxy:*", "~ctx:b")
		says("SET ctx:a v")
		says("GET ctx:b")
		says("SET ctx:b v")
		change("SETUSER", "writer", "~ctx:*", "-append", "+incr")
		says("SET ctx:a v")
		says("INCR ctx:n")
		says("APPEND ctx:a v")
		change("SETUSER", "writer", "off")
		says("SET ctx:a w") // who has logged in stays so
		says("AUTH writer pw")
		says("GET ctx:a")
		change("SETUSER", "writer", "on")
		says("GET ctx:a")
		change("DELUSER", "writer")
		p.direct.ExpectClosed()
		p.client.Send(harness.Encode("SET", "ctx:a", "deleted") + harness.Encode("SET", "ctx:b", "deleted") + harness.Encode("GET", "ctx:a"))
		for { // it may be told what became of the first, and that is all
			reply, err := p.client.Read()
			if err != nil {
				break
			}
			if !strings.HasPrefix(string(reply), "-FENCE") && !strings.HasPrefix(string(reply), "-ERR fence-proxy: ") {
				t.Errorf("it hears %q", reply)
			}
		}
		p.client.ExpectClosed()
		wantValue(t, w.behind, "ctx:a", "w")
		for _, server := range []*harness.Redis{w.straight, w.behind} {
			allow(t, server, "writer", "+get +set +acl|whoami ~ctx:* "+guardRights(t))
		}
		empty(t, w.straight)
		empty(t, w.behind)
	}
}
