//go:build integration

package integration

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 58: a client that caches hears what it must throw away, and nothing about fence records. D
// is not behind the proxy.
const trackedReads = `
T: CLIENT TRACKING ON => 1
T: GET ctx:s => 1
D: SET ctx:s 1 => 1
T: => 1
T: GET ctx:s => 1
T: SET ctx:s 2 => 2
T: GET free => 1
T: SET free 2 => 2
T: MGET ctx:s ctx:t free => 1
D: MSET ctx:t 1 free 1 => 1
T: => 2
T: SET ctx:s 3 => 2
T: PING => 1
T: CLIENT TRACKING OFF => 1
T: GET ctx:s => 1
D: SET ctx:s 4 => 1
T: PING => 1
T: SET ctx:s 4 => 1
T: CLIENT TRACKING ON NOLOOP => 1
T: GET ctx:s => 1
T: SET ctx:s 5 => 1
T: GET ctx:s => 1
D: SET ctx:s 6 => 1
T: SET ctx:s 7 => 2
T: CLIENT CACHING YES => 1
T: CLIENT TRACKING OFF => 1
T: CLIENT TRACKING ON BCAST => 1
T: GET ctx:s => 1
D: SET ctx:s 8 => 1
T: => 1
T: SET ctx:s 9 => 2
T: PING => 1
T: CLIENT TRACKING OFF => 1
T: CLIENT TRACKING ON BCAST PREFIX ctx: PREFIX fence NOLOOP => 1
T: GET ctx:s => 1
T: SET ctx:s 10 => 1
D: SET ctx:s 11 => 1
T: => 1
T: PING => 1
D: FLUSHALL => 1
T: => 1
T: PING => 1
T: CLIENT TRACKING OFF => 1
T: CLIENT TRACKING ON BCAST PREFIX a PREFIX ab => 1
T: CLIENT TRACKING MAYBE => 1
`

// CLIENT CACHING is about the next command, not about what the fence sends before it.
const cachedByChoice = `
T: CLIENT TRACKING ON OPTIN => 1
T: GET ctx:a => 1
T: CLIENT CACHING YES => 1
T: GET ctx:b => 1
D: MSET ctx:a 1 ctx:b 1 => 1
T: => 1
T: PING => 1
T: CLIENT CACHING YES ; GET ctx:c ; GET ctx:d => 3
D: MSET ctx:c 1 ctx:d 1 => 1
T: => 1
T: CLIENT CACHING YES ; GET free ; GET free2 => 3
D: MSET free 1 free2 1 => 1
T: => 1
T: GET ctx:e => 1
T: CLIENT CACHING YES ; MULTI ; GET free ; GET free2 ; EXEC ; GET free3 => 6
D: MSET free 1 free2 1 free3 1 => 1
T: => 2
T: GET ctx:f ; CLIENT CACHING YES ; WATCH free ; GET free ; UNWATCH => 5
D: SET free 1 => 1
T: PING => 1
T: CLIENT CACHING NO => 1
T: CLIENT CACHING MAYBE => 1
T: CLIENT TRACKING OFF => 1
T: CLIENT TRACKING ON OPTOUT => 1
T: GET ctx:g => 1
T: CLIENT CACHING NO ; GET ctx:h ; GET ctx:i => 3
D: MSET ctx:g 1 ctx:h 1 ctx:i 1 => 1
T: => 2
T: PING => 1
`

// … or to a whole transaction, or to what is behind it in one; and not about other CLIENT commands in between.
const cachedTogether = `
T: CLIENT TRACKING ON OPTIN => 1
T: CLIENT CACHING YES ; MULTI ; GET ctx:a ; GET free ; EXEC ; GET ctx:b => 6
D: MSET ctx:a 1 free 1 ctx:b 1 => 1
T: => 2
T: CLIENT CACHING YES ; MULTI ; GET ctx:a ; SET ctx:c 1 ; GET ctx:c ; EXEC ; GET ctx:b => 7
D: MSET ctx:a 2 ctx:b 2 ctx:c 2 => 1
T: => 2
T: MULTI ; GET ctx:a ; CLIENT CACHING YES ; GET ctx:b ; GET free ; EXEC ; GET ctx:c => 7
D: MSET ctx:a 3 ctx:b 3 ctx:c 3 free 3 => 1
T: => 2
T: MULTI ; SET ctx:a 1 ; CLIENT CACHING YES ; GET ctx:b ; EXEC ; GET ctx:c => 6
D: MSET ctx:a 4 ctx:b 4 ctx:c 4 => 1
T: => 1
T: MULTI ; CLIENT CACHING YES ; EXEC ; GET ctx:a => 4
D: SET ctx:a 5 => 1
T: MULTI ; CLIENT CACHING YES ; GET free ; EXEC ; GET ctx:a => 5
D: MSET ctx:a 6 free 6 => 1
T: => 1
T: MULTI ; CLIENT CACHING NO ; GET ctx:a ; EXEC => 4
T: CLIENT CACHING YES => 1
T: MULTI => 1
T: GET ctx:a => 1
T: EXEC => 1
D: SET ctx:a 7 => 1
T: => 1
T: CLIENT CACHING YES => 1
T: MULTI => 1
T: SET ctx:a 8 => 1
T: GET ctx:b => 1
T: EXEC => 1
D: SET ctx:b 8 => 1
T: => 1
T: CLIENT CACHING YES => 1
T: MULTI => 1
T: GET free => 1
T: DISCARD => 1
T: GET ctx:a ; GET free => 2
D: MSET ctx:a 9 free 9 => 1
T: CLIENT CACHING YES => 1
T: MULTI => 1
T: GET free => 1
T: EXEC => 1
D: SET free 10 => 1
T: => 1
T: CLIENT CACHING YES ; CLIENT GETNAME ; GET ctx:a ; GET ctx:b => 4
D: MSET ctx:a 11 ctx:b 11 => 1
T: => 1
T: CLIENT CACHING YES ; NONSENSE ; GET ctx:a => 3
D: SET ctx:a 12 => 1
T: CLIENT CACHING YES ; EVAL "return redis.call('get',KEYS[1])" 1 ctx:a ; GET ctx:b => 3
D: MSET ctx:a 13 ctx:b 13 => 1
T: => 1
T: GET ctx:a ; CLIENT CACHING YES ; EVAL "return redis.call('get',KEYS[1])" 1 ctx:a ; SET ctx:a 14 => 4
D: SET ctx:a 15 => 1
T: => 1
T: WATCH free ; CLIENT CACHING YES ; MULTI ; GET ctx:a ; EXEC => 5
D: SET ctx:a 16 => 1
T: => 1
T: WATCH free => 1
T: CLIENT CACHING YES => 1
T: MULTI => 1
T: SET ctx:a 17 => 1
T: GET ctx:b => 1
T: EXEC => 1
D: SET ctx:b 17 => 1
T: => 1
T: PING => 1
`

func TestAClientThatCachesHearsWhatChanged(t *testing.T) {
	t.Parallel()
	w := startTwins(t, endless("0s", "writes_per_read: many"))
	for name, script := range map[string]string{"all it reads": trackedReads, "what it chooses": cachedByChoice, "what it chooses together": cachedTogether} {
		t.Run(name, func(t *testing.T) {
			empty(t, w.straight)
			empty(t, w.behind)
			w.plays(t, "3", script)
		})
	}
}

// In RESP2 invalidations go to another connection, as messages.
func TestInvalidationsAreRedirected(t *testing.T) {
	t.Parallel()
	w := startTwins(t, endless("0s", "writes_per_read: many"))
	for _, protocol := range []string{"2", "3"} {
		for _, mode := range []string{"", " BCAST"} {
			t.Run("RESP"+protocol+mode, func(t *testing.T) {
				reader, listener := w.meet(t, "reader", "2"), w.meet(t, "listener", protocol)
				id := func(conn *harness.RawConn) string {
					return strings.Trim(string(bytes.TrimSpace(conn.Do("CLIENT", "ID"))), ":")
				}
				for _, side := range [][2]*harness.RawConn{{reader.direct, listener.direct}, {reader.client, listener.client}} {
					command := append([]string{"CLIENT", "TRACKING", "ON", "REDIRECT", id(side[1])}, strings.Fields(mode)...)
					if reply := side[0].Do(command...); string(reply) != "+OK\r\n" {
						t.Fatalf("%q: %q", command, reply)
					}
				}
				if protocol == "2" {
					listener.says(1, []string{"SUBSCRIBE", "__redis__:invalidate"})
				}
				reader.says(1, []string{"GET", "ctx:s"})
				reader.says(1, []string{"SET", "ctx:s", "v"})
				listener.hears(1, "the reader's own write")
				reader.says(1, []string{"GET", "ctx:s"})
				d := w.meet(t, "D", "2")
				d.says(1, []string{"SET", "ctx:s", "w"})
				listener.hears(1, "another's write")
				listener.says(1, []string{"PING"})
				reader.says(1, []string{"SET", "ctx:s", "end"})
			})
		}
	}
}

// Keyspace notifications tell what happens to keys; nothing is told of fence records.
func TestNotificationsAboutFenceRecordsDoNotShow(t *testing.T) {
	t.Parallel()
	w := startTwins(t, endless("0s", "writes_per_read: many"), harness.WithArgs("--notify-keyspace-events", "KEA"))
	for _, protocol := range []string{"2", "3"} {
		t.Run("RESP"+protocol, func(t *testing.T) {
			w.plays(t, protocol, `
				S: PSUBSCRIBE __key*__:* => 1
				S: SUBSCRIBE __keyspace@0__:fence-proxy:{ctx:ctx:s}:t fence-proxy:wake:x => 2
				O: GET ctx:s => 1
				O: SET ctx:s v => 1
				S: => 2
				O: RPUSH free 1 => 1
				S: => 2
				O: DEL ctx:s free => 1
				S: => 4
				S: PING => 1
				S: PUNSUBSCRIBE => 1
				S: PSUBSCRIBE * => 1
				O: SET ctx:s v => 1
				S: => 2
				O: PUBLISH a text => 1
				S: => 1
				O: DEL ctx:s => 1
				S: => 2
				S: PING => 1`)
		})
	}
}

// Cases 34 and 67, of commands in a transaction, and of channels.
func TestReservedNamesDoNotShowInTransactions(t *testing.T) {
	t.Parallel()
	w := startTwins(t, endless("0s", "writes_per_read: many"))
	for _, protocol := range []string{"2", "3"} {
		empty(t, w.straight)
		empty(t, w.behind)
		w.one(t, protocol, `
			A: GET ctx:s => 1
			A: KEYS * => 1
			A: MULTI ; ECHO fence-proxy:x ; KEYS * ; PING ; KEYS fence-proxy:* ; SCAN 0 COUNT 1000 ; RANDOMKEY ; ECHO fence-proxy:x ; EXEC => 9
			A: SET free v => 1
			A: MULTI ; RANDOMKEY ; SET other fence-proxy:x ; GET other ; KEYS oth* ; DEL other ; RANDOMKEY ; EXEC => 8
			A: MULTI ; KEYS * ; WATCH free ; MULTI ; KEYS f* ; EXEC => 6
			A: MULTI ; KEYS * ; NONSENSE ; EXEC => 4
			A: MULTI ; KEYS * ; SELECT 1 ; KEYS * ; EXEC ; DBSIZE ; SELECT 0 => 7
			A: WATCH free ; SET free w ; MULTI ; KEYS * ; EXEC => 5
			A: MULTI ; KEYS * ; DISCARD ; PING ; MULTI ; PING ; EXEC => 7
			A: PUBSUB CHANNELS => 1
			A: PUBSUB CHANNELS fence* => 1
			A: MULTI ; PUBSUB CHANNELS ; EXEC => 3`)
	}
	client, _ := connect(t, "client", w.proxy.Addr)
	client.fails("FENCEDENIED", "PUBLISH", "fence-proxy:wake:x", "a 1")
	client.fails("FENCEDENIED", "SPUBLISH", "fence-proxy:wake:x", "a 1")
}
