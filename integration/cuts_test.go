//go:build integration

package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Connections between the proxy and Redis are cut at random bytes in both directions, some so that what was sent is
// delivered later. Each update that was acknowledged is applied exactly once, each that was refused not at all, and of
// those whose outcome is said to be unknown none is applied twice; most outcomes are known. CUTS says how many cuts.
func TestEachUpdateIsAppliedOnceThroughCutConnections(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	cutting(t, relay.URL(), "ctx:<session>:*", "ctx:%d:", 600, shears{relay}, server.Client())
}

// The same with a cluster's nodes, none of which fails.
func TestEachUpdateIsAppliedOnceThroughCutConnectionsToACluster(t *testing.T) {
	t.Parallel()
	cluster := harness.StartSeverableCluster(t, 3, 0)
	var relays shears
	for _, n := range cluster.Nodes {
		relays = append(relays, n.Way())
	}
	cutting(t, cluster.URL(), "ctx:{<session>}:*", "ctx:{%d}:", 300, relays, cluster.Direct())
}

// The same with toxiproxy between: connections end after so many bytes, or are reset.
func TestEachUpdateIsAppliedOnceThroughToxiproxy(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	poison := &poison{tb: t, direct: server.Client(), way: harness.StartToxiproxy(t, server.Addr)}
	cutting(t, poison.way.URL(), "ctx:<session>:*", "ctx:%d:", 300, poison, server.Client())
}

// cutting cuts the connections to Redis, so many times unless CUTS says another number.
func cutting(t *testing.T, upstream, pattern, session string, cuts int, cutter cutter, direct redis.UniversalClient) {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("CUTS")); err == nil {
		cuts = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Upstream: upstream, ConfigYAML: guarding(fmt.Sprintf("session: %q", pattern), "lease: 1s", "max_hold: 5s", "wait: 3s"),
	})
	l := &ledger{session: session, updates: map[string]update{}}
	var over atomic.Bool
	var workers sync.WaitGroup
	for i := range 6 {
		w := &cutWorker{ledger: l, addr: proxy.Addr, n: i, rand: rand.New(rand.NewPCG(seed, uint64(i)))}
		workers.Go(func() { w.work(&over) })
	}
	random := rand.New(rand.NewPCG(seed, 100))
	for range cuts {
		cutter.cut(random)
	}
	over.Store(true)
	workers.Wait()
	cutter.close()
	l.audit(t, direct, cuts)
}

// cutSessions is how many sessions the updates are of.
const cutSessions = 24

// fate is what a client was told of an update.
type fate int

const (
	acknowledged fate = iota
	carriedOut        // FENCEUNKNOWN says so
	refused
	unknown
	unheard   // the connection was closed
	senseless // no reply to such an update
)

// update is one update: where its id is to be found, how often.
type update struct {
	fate   fate
	lists  []string // keys of the lists that it pushes to, all or none
	value  string   // key of the value that it appends to
	count  string   // key of the counter
	number int64    // that a counter or a push was answered with
}

// ledger is what the clients were told, by the updates' ids.
type ledger struct {
	session string // the format of what a session's keys begin with
	mu      sync.Mutex
	updates map[string]update
}

func (l *ledger) note(id string, u update) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updates[id] = u
}

// cutWorker is an agent that connects again whenever it has to.
type cutWorker struct {
	*ledger
	addr string
	n    int
	rand *rand.Rand
	conn *harness.RawConn
	ids  int
}

func (w *cutWorker) work(over *atomic.Bool) {
	for !over.Load() {
		if w.conn == nil {
			conn, err := harness.Connect(w.addr)
			if err != nil {
				continue
			}
			w.conn = conn
		}
		w.turn()
	}
	if w.conn != nil {
		_ = w.conn.Close()
	}
}

// turn is one update, in one of several forms, of one of three sessions.
func (w *cutWorker) turn() {
	w.ids++
	id := fmt.Sprintf("%d.%d", w.n, w.ids)
	key := func(name string) string { return fmt.Sprintf(w.session, w.rand.IntN(cutSessions)) + name }
	switch w.rand.IntN(6) {
	case 0, 1:
		u := update{value: key("value")}
		was, err := w.do("GET", u.value)
		if err != nil {
			return
		}
		text, _ := was.(string)
		reply, err := w.do("SET", u.value, text+","+id)
		u.fate = fateOf(reply, err, "OK")
		w.note(id, u)
	case 2:
		u := update{lists: []string{key("list")}}
		reply, err := w.do("RPUSH", u.lists[0], id)
		u.fate = fateOf(reply, err, nil)
		u.number, _ = reply.(int64)
		w.note(id, u)
	case 3:
		u := update{count: key("count")}
		reply, err := w.do("INCR", u.count)
		u.fate = fateOf(reply, err, nil)
		u.number, _ = reply.(int64)
		w.note(id, u)
	case 4:
		first, second := key("list"), key("other")
		if strings.Contains(first, "{") { // a transaction is of one slot
			second = strings.TrimSuffix(first, "list") + "other"
		}
		w.transaction(id, update{lists: []string{first, second}})
	default:
		w.pipeline(id, update{lists: []string{key("list")}}, update{lists: []string{key("list")}})
	}
}

// transaction pushes to lists of two sessions, as a client library sends it.
func (w *cutWorker) transaction(id string, u update) {
	_, err := w.conn.Write([]byte(harness.Encode("MULTI") + harness.Encode("RPUSH", u.lists[0], id) + harness.Encode("RPUSH", u.lists[1], id) + harness.Encode("EXEC")))
	sensible := true
	var reply any
	for i := 0; i < 4 && w.conn != nil; i++ {
		reply, err = w.hear()
		if want := []string{"OK", "QUEUED", "QUEUED"}; err == nil && i < 3 && reply != want[i] {
			sensible = false
		}
	}
	if u.fate = fateOf(reply, err, nil); !sensible {
		u.fate = senseless
	}
	w.note(id, u)
}

// pipeline sends two updates at once, with a command in between whose reply shows that the order of replies is kept.
func (w *cutWorker) pipeline(id string, first, second update) {
	_, _ = w.conn.Write([]byte(harness.Encode("RPUSH", first.lists[0], id+"a") + harness.Encode("ECHO", id) + harness.Encode("RPUSH", second.lists[0], id+"b")))
	replies := make([]any, 3)
	fates := []fate{unheard, unheard, unheard}
	for i := 0; i < len(replies) && w.conn != nil; i++ {
		reply, err := w.hear()
		replies[i], fates[i] = reply, fateOf(reply, err, nil)
	}
	if fates[1] == acknowledged && replies[1] != id {
		fates[0], fates[2] = senseless, senseless
	}
	first.fate, second.fate = fates[0], fates[2]
	first.number, _ = replies[0].(int64)
	second.number, _ = replies[2].(int64)
	w.note(id+"a", first)
	w.note(id+"b", second)
}

func (w *cutWorker) do(args ...string) (any, error) {
	if _, err := w.conn.Write([]byte(harness.Encode(args...))); err != nil {
		w.hangUp()
		return nil, err
	}
	return w.hear()
}

func (w *cutWorker) hear() (any, error) {
	raw, err := w.conn.Read()
	if err == nil {
		var reply any
		if reply, err = harness.Decode(raw); err == nil {
			if said, failed := reply.(harness.ReplyError); failed {
				return reply, said
			}
			return reply, nil
		}
	}
	w.hangUp()
	return nil, err
}

func (w *cutWorker) hangUp() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// fateOf says what a reply says of an update.
func fateOf(reply any, err error, want any) fate {
	var said harness.ReplyError
	switch {
	case err == nil && (want == nil || reply == want):
		return acknowledged
	case err == nil:
		return senseless
	case !errors.As(err, &said):
		return unheard
	}
	word, _, _ := strings.Cut(string(said), " ")
	switch {
	case strings.Contains(string(said), "was carried out, once"):
		return carriedOut
	case word == "FENCED", word == "LOCKED", word == "FENCEDOWN":
		return refused
	case word == "FENCEUNKNOWN":
		return unknown
	}
	return unheard // "ERR fence-proxy: the connection …"
}

// audit compares what Redis has with what the clients were told.
func (l *ledger) audit(t *testing.T, direct redis.UniversalClient, cuts int) {
	t.Helper()
	found := map[string]int{}             // by id and key
	places := map[string]map[string]int{} // of the ids in each list
	for s := range cutSessions {
		session := fmt.Sprintf(l.session, s)
		for _, id := range strings.Split(direct.Get(t.Context(), session+"value").Val(), ",") {
			found[session+"value "+id]++
		}
		for _, name := range []string{"list", "other"} {
			key := session + name
			places[key] = map[string]int{}
			for i, id := range direct.LRange(t.Context(), key, 0, -1).Val() {
				found[key+" "+id]++
				places[key][id] = i + 1
			}
		}
	}
	sums, least, numbers := map[string]int64{}, map[string]int64{}, map[string]bool{}
	tally := map[fate]int{}
	for id, u := range l.updates {
		tally[u.fate]++
		if u.count != "" {
			sums[u.count]++
			switch u.fate {
			case acknowledged:
				least[u.count]++
				if at := fmt.Sprint(u.count, u.number); numbers[at] {
					t.Errorf("two updates of %s were answered with %d", u.count, u.number)
				} else {
					numbers[at] = true
				}
			case carriedOut:
				least[u.count]++
			case refused:
				sums[u.count]--
			}
			continue
		}
		keys := u.lists
		if u.value != "" {
			keys = []string{u.value}
		}
		first := found[keys[0]+" "+id]
		for _, key := range keys {
			times := found[key+" "+id]
			switch {
			case u.fate == senseless:
				t.Errorf("update %s of %v had a reply that makes no sense", id, keys)
			case times > 1, (u.fate == acknowledged || u.fate == carriedOut) && times != 1, u.fate == refused && times != 0:
				t.Errorf("update %s, of which the client heard %d, was applied %d times to %s", id, u.fate, times, key)
			case times != first && keys[0] != keys[len(keys)-1]:
				t.Errorf("update %s was applied %d times to %s and %d times to %s", id, first, keys[0], times, key)
			case u.fate == acknowledged && len(keys) == 1 && u.value == "" && int64(places[key][id]) != u.number:
				t.Errorf("update %s was answered with %d, and is at %d of %s", id, u.number, places[key][id], key)
			}
		}
	}
	for key, most := range sums {
		if got, _ := direct.Get(t.Context(), key).Int64(); got < least[key] || got > most {
			t.Errorf("%s is %d, and was counted up between %d and %d times", key, got, least[key], most)
		}
	}
	t.Logf("%d cuts; acknowledged %d, carried out without a reply %d, refused %d, unknown %d, unheard %d",
		cuts, tally[acknowledged], tally[carriedOut], tally[refused], tally[unknown], tally[unheard])
	if tally[acknowledged] < cuts {
		t.Errorf("only %d updates were acknowledged", tally[acknowledged])
	}
	most := cuts / 3
	if !findsOut(t, direct) {
		most = tally[acknowledged] / 3 // so what became of most was heard
	}
	if tally[unknown] > most || tally[unheard] > most {
		t.Errorf("of %d updates nobody knows the outcome, of %d the connection was closed; want at most %d", tally[unknown], tally[unheard], most)
	}
}
