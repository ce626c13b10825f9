//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Under RESP2 Redis takes little but subscriptions while there are any, and says so itself, of
// guarded commands too. Case 57.
const subscriberOfRESP2 = `
S: GET ctx:s => 1
S: SET ctx:s v => 1
S: SUBSCRIBE a b => 2
S: GET ctx:s => 1
S: SET ctx:s w => 1
S: MGET ctx:s ctx:t => 1
S: DEL ctx:s => 1
S: GET free => 1
S: MULTI => 1
S: WATCH ctx:s => 1
S: SELECT 1 => 1
S: CLIENT TRACKING ON => 1
S: HELLO 3 => 1
S: NONSENSE => 1
S: GET => 1
S: PING => 1
S: PING text => 1
S: PSUBSCRIBE p* q* => 2
S: SUBSCRIBE a a c => 3
S: UNSUBSCRIBE none => 1
S: UNSUBSCRIBE => 3
S: GET ctx:s => 1
S: PUNSUBSCRIBE p* q* => 2
S: GET ctx:s => 1
S: SET ctx:s w => 1
S: GET ctx:s => 1
S: UNSUBSCRIBE => 1
S: PUNSUBSCRIBE => 1
S: SUNSUBSCRIBE => 1
S: UNSUBSCRIBE x y => 2
S: SUBSCRIBE => 1
S: LRANGE message 0 -1 => 1
S: RPUSH free message a b => 1
S: RPUSH free2 subscribe a 1 => 1
S: LRANGE free 0 -1 => 1
S: LRANGE free2 0 -1 => 1
S: SSUBSCRIBE s1 s2 => 2
S: SET ctx:s x => 1
S: GET ctx:s => 1
S: SUBSCRIBE a => 1
S: SUNSUBSCRIBE => 2
S: PING => 1
S: UNSUBSCRIBE a => 1
S: GET ctx:s => 1
S: SET ctx:s y => 1
S: MULTI => 1
S: SET free w => 1
S: EXEC => 1
S: SUBSCRIBE a b => 2
S: PSUBSCRIBE p => 1
S: RESET => 1
S: SET ctx:s z => 1
S: GET ctx:s => 1
S: MULTI => 1
S: GET free => 1
S: SUBSCRIBE a => 1
S: EXEC => 1
S: GET ctx:s => 1
S: UNSUBSCRIBE => 1
S: SET ctx:s end => 1
S: GET ctx:s => 1
`

// Under RESP3 messages come between the replies, and commands work as ever.
const subscriberOfRESP3 = `
S: SUBSCRIBE a b => 2
S: GET ctx:s => 1
S: PUBLISH a "to myself" => 2
S: SET ctx:s v => 1
S: GET ctx:s => 1
S: PUBLISH b again ; SET ctx:s w ; PUBLISH b "and again" ; GET ctx:s => 6
S: SET ctx:s u => 1
S: PING => 1
S: RPUSH free message a b => 1
S: LRANGE free 0 -1 => 1
S: PSUBSCRIBE p* => 1
S: PUBLISH pat text => 2
S: SSUBSCRIBE s => 1
S: SPUBLISH s shard => 2
S: UNSUBSCRIBE => 2
S: UNSUBSCRIBE => 1
S: UNSUBSCRIBE x y => 2
S: SUBSCRIBE => 1
S: MULTI => 1
S: SET free w => 1
S: PUBLISH pat text => 1
S: EXEC => 2
S: SUNSUBSCRIBE => 1
S: PUNSUBSCRIBE => 1
S: GET ctx:s => 1
S: SET ctx:s x => 1
S: SUBSCRIBE a => 1
S: HELLO 2 => 1
S: GET ctx:s => 1
S: PING => 1
S: UNSUBSCRIBE => 1
S: GET ctx:s => 1
S: HELLO 3 => 1
S: SUBSCRIBE a b => 2
S: RESET => 1
S: SET ctx:s y => 1
S: GET ctx:s => 1
S: HELLO 3 => 1
S: GET ctx:s => 1
S: MULTI ; SUBSCRIBE a ; EXEC => 3
S: GET ctx:s => 1
S: PUBLISH a b => 2
S: UNSUBSCRIBE => 1
S: SET ctx:s z => 1
`

func TestASubscriberIsServedAsByRedis(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding("writes_per_read: many"))
	confirmsLeaving(t, w.straight)
	w.one(t, "2", subscriberOfRESP2)
	w.one(t, "3", subscriberOfRESP3)
}

// Messages of others come at any time.
func TestMessagesOfOthersComeBetweenTheReplies(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding("writes_per_read: many"))
	w.plays(t, "2", `
		S: SUBSCRIBE a => 1
		S: PSUBSCRIBE a* => 1
		P: PUBLISH a one => 1
		S: => 2
		S: PING ; PING => 2
		P: PUBLISH a two => 1
		S: PING => 3
		S: UNSUBSCRIBE a ; PUNSUBSCRIBE => 2
		S: GET ctx:s ; SET ctx:s v => 2
		P: PUBLISH a three => 1
		S: PING => 1`)
	w.plays(t, "3", `
		S: SUBSCRIBE a => 1
		S: GET ctx:r => 1
		P: PUBLISH a one => 1
		S: SET ctx:r v => 2
		P: PUBLISH a two => 1
		S: => 1
		S: GET ctx:r ; SET ctx:r w => 2`)
}

// What Redis refuses takes nothing.
func TestARefusedCommandOfASubscriberTakesNoSession(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding()})
	subscriber, _ := connect(t, "subscriber", proxy.Addr)
	subscriber.does([]any{"subscribe", "a", int64(1)}, "SUBSCRIBE", "a")
	for _, command := range [][]string{{"GET", "ctx:s"}, {"SET", "ctx:s", "v"}, {"BLPOP", "ctx:s", "0"}, {"MSET", "ctx:s", "v", "free", "v"}} {
		subscriber.fails("ERR", command...)
	}
	if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("it left %q", keys)
	}
	other, _ := connect(t, "other", proxy.Addr)
	other.does(nil, "GET", "ctx:s")
	other.does("OK", "SET", "ctx:s", "v")
	subscriber.does([]any{"unsubscribe", "a", int64(0)}, "UNSUBSCRIBE")
	subscriber.does("v", "GET", "ctx:s")
	if recordOf(t, server, "ctx:s").holder() == "" {
		t.Error("after its subscription it takes no session")
	}
}

// In MONITOR mode Redis goes on answering what touches no data.
func TestAMonitorIsServedAsByRedis(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding("writes_per_read: many"))
	needs(t, w.straight, "function") // before 7.0 MULTI is told in another order: docs/servers.md
	for _, protocol := range []string{"2", "3"} {
		t.Run("RESP"+protocol, func(t *testing.T) {
			w.plays(t, protocol, `
				O: GET free => 1
				M: MONITOR => 1
				M: MONITOR ; PING => 2
				O: SET free v => 1
				M: => 1
				O: multi => 1
				O: set free w ; get free => 2
				O: exec => 1
				M: => 4
				O: multi ; set free v ; exec => 3
				M: => 3
				M: PING ; ECHO text => 4
				M: GET free => 1
				M: SET ctx:s v => 1
				M: GET ctx:s => 1
				M: ECHO text => 2
				O: GET free => 1
				M: NONSENSE => 2
				M: RESET => 1
				M: SET ctx:s v => 1
				M: GET ctx:s ; SET ctx:s w ; GET free => 3
				O: SET free x => 1
				M: GET free => 1`)
		})
	}
}

// Cases 55 and 57: to a client that turned its replies off, guarded commands are applied all the
// same, and nothing is said of them.
func TestRepliesThatAreTurnedOffAreNotSent(t *testing.T) {
	t.Parallel()
	w := startTwins(t, guarding("writes_per_read: many"))
	confirmsLeaving(t, w.straight)
	needs(t, w.straight, "function") // before 7.0 confirmations are kept back, too: docs/servers.md
	for _, protocol := range []string{"2", "3"} {
		w.one(t, protocol, `
			A: SET ctx:s 1 => 1
			A: CLIENT REPLY OFF ; SET ctx:s 2 ; GET ctx:s ; SET free 1 ; GET free ; NONSENSE ; SELECT 99 ; CLIENT REPLY nonsense ; CLIENT REPLY SKIP ; PING ; KEYS free* ; CLIENT REPLY ON => 1
			A: GET ctx:s ; GET free => 2
			A: CLIENT REPLY SKIP ; SET ctx:s 3 ; GET ctx:s => 1
			A: CLIENT REPLY SKIP ; GET ctx:s ; SET ctx:s 4 => 1
			A: CLIENT REPLY SKIP ; CLIENT REPLY SKIP ; SET free 2 ; GET free => 1
			A: CLIENT REPLY SKIP ; CLIENT REPLY ON ; GET free => 2
			A: CLIENT REPLY SKIP ; NONSENSE ; GET ctx:s => 1
			A: CLIENT REPLY SKIP ; CLIENT REPLY nonsense ; GET ctx:s => 1
			A: CLIENT REPLY OFF ; CLIENT REPLY SKIP ; GET free ; RESET ; GET free => 2
			A: CLIENT REPLY SKIP ; RESET ; GET free => 1
			A: CLIENT REPLY => 1
			A: CLIENT REPLY ON more => 1
			A: CLIENT REPLY ON => 1
			A: MULTI ; CLIENT REPLY ON ; GET free ; EXEC => 4
			A: CLIENT REPLY SKIP ; MULTI ; SET free 3 ; EXEC => 2
			A: CLIENT REPLY OFF ; MULTI ; SET free 4 ; EXEC ; SELECT 1 ; SET ctx:s 5 ; SELECT 0 ; CLIENT REPLY ON => 1
			A: CLIENT REPLY OFF ; MULTI ; SUBSCRIBE a b ; ECHO x ; UNSUBSCRIBE a b ; EXEC ; CLIENT REPLY ON => 5
			A: CLIENT REPLY OFF ; MULTI ; PSUBSCRIBE c* d* ; PUBLISH ch 1 ; PSUBSCRIBE e* f* ; PUNSUBSCRIBE ; EXEC ; CLIENT REPLY ON => 10
			A: CLIENT REPLY OFF ; MULTI ; UNSUBSCRIBE x y ; EXEC ; CLIENT REPLY ON => 3
			A: GET free => 1
			A: SUBSCRIBE a => 1
			A: UNSUBSCRIBE => 1
			A: CLIENT REPLY OFF ; SUBSCRIBE a b ; UNSUBSCRIBE ; PSUBSCRIBE ; SET ctx:s 6 ; CLIENT REPLY ON => 5
			A: GET ctx:s => 1
			A: CLIENT REPLY SKIP ; SUBSCRIBE a ; PING => 2
			A: UNSUBSCRIBE => 1
			A: SET ctx:s 7 => 1`)
		t.Run("RESP"+protocol+" with messages", func(t *testing.T) {
			w.plays(t, protocol, `
				S: SUBSCRIBE a => 1
				P: CLIENT REPLY OFF ; PUBLISH a unheard ; CLIENT REPLY ON => 1
				S: => 1`)
		})
	}
}

// A refusal that is not said is still one.
func TestAWriteThatIsRefusedUnheardIsNotApplied(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: endless("0s")})
	quiet, conn := connect(t, "quiet", proxy.Addr)
	other, _ := connect(t, "other", proxy.Addr)
	quiet.does(nil, "GET", "ctx:s")
	session := recordOf(t, server, "ctx:s")
	server.Client().Del(t.Context(), session.token, session.hold) // its hold is over
	other.does("OK", "SET", "ctx:s", "theirs")
	conn.Send(harness.Encode("CLIENT", "REPLY", "OFF") + harness.Encode("SET", "ctx:s", "mine") + harness.Encode("CLIENT", "REPLY", "ON"))
	quiet.hears("OK")
	proxy.WaitLog(t, "FENCED")
	wantValue(t, server, "ctx:s", "theirs")
	quiet.does("theirs", "GET", "ctx:s")
	quiet.does("OK", "SET", "ctx:s", "mine")
}
