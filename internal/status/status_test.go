package status

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
)

var all = Query{Limit: 100}

func TestAHoldShowsFromItsGrantToItsRelease(t *testing.T) {
	s := newStage(t)
	a := agent("worker-1", 1, "42")
	s.granted(a, 10, 0)
	s.reads(a, 10)
	s.at(12 * time.Second)
	page := s.Holds(all)
	if page.Total != 1 || len(page.Items) != 1 {
		t.Fatalf("%+v", page)
	}
	h := page.Items[0]
	if h.Holder.Name != "worker-1" || h.Session.Session != "42" || h.Rule != "chat" || h.Grant != 10 || h.Reads != 1 || h.Command != "GET" {
		t.Errorf("%+v", h)
	}
	if time.Duration(h.Age) != 12*time.Second || time.Duration(*h.LeaseLeft) != 18*time.Second {
		t.Errorf("age %v, lease left %v", h.Age, *h.LeaseLeft)
	}
	renewal := a
	renewal.Kind, renewal.Grant, renewal.Lease = event.Renew, 10, usual.Lease
	s.tells(renewal)
	if h := s.Holds(all).Items[0]; time.Duration(*h.LeaseLeft) != 30*time.Second {
		t.Errorf("after a renewal the lease has %v left", *h.LeaseLeft)
	}
	s.writes(a, 10)
	s.releases(a, 10)
	if page := s.Holds(all); page.Total != 0 {
		t.Errorf("after its release: %+v", page)
	}
	now := s.Now()
	if now.Holding != 0 || now.Hour.Grants != 1 || now.Hour.Commits != 1 || now.Hour.Holds.Count != 1 || time.Duration(now.Hour.Holds.Longest) != 12*time.Second {
		t.Errorf("%+v", now)
	}
}

func TestALineShowsWhoWaitsForWhomAndForHowLong(t *testing.T) {
	s := newStage(t)
	a := agent("holder", 1, "42")
	s.granted(a, 10, 0)
	behind := a.Owner
	behind.Grant = 10
	for i := range 7 {
		s.at(time.Duration(i) * time.Second)
		s.asks(agent(fmt.Sprint("waiter-", i), uint64(2+i), "42"), behind)
	}
	s.at(8 * time.Second)
	page := s.Queues(all)
	if page.Total != 1 {
		t.Fatalf("%+v", page)
	}
	q := page.Items[0]
	if q.Waiting != 7 || time.Duration(q.Longest) != 8*time.Second || q.Holder == nil || q.Holder.Name != "holder" || q.Holder.Grant != 10 {
		t.Errorf("%+v", q)
	}
	if len(q.First) != firstWaiters || q.First[0].Name != "waiter-0" || q.First[1].Name != "waiter-1" {
		t.Errorf("first in line: %+v", q.First)
	}
	if now := s.Now(); now.Waiting != 7 || now.Holding != 1 {
		t.Errorf("%+v", now)
	}
	if h := s.Holds(all).Items[0]; h.Waiting != 7 {
		t.Errorf("%d wait behind the hold", h.Waiting)
	}
	s.releases(a, 10)
	s.granted(agent("waiter-0", 2, "42"), 11, 8*time.Second)
	if q := s.Queues(all).Items[0]; q.Waiting != 6 || q.Holder.Name != "waiter-0" {
		t.Errorf("after the hand-over: %+v", q)
	}
	if now := s.Now(); now.Hour.Waits.Count != 1 || time.Duration(now.Hour.Waits.Longest) != 8*time.Second {
		t.Errorf("%+v", now.Hour.Waits)
	}
}

func TestSomebodyElsewhereWhoIsWaitedForIsNamed(t *testing.T) {
	s := newStage(t)
	s.asks(agent("waiter", 1, "42"), event.Party{Proxy: "there", Client: "10.9.9.9:1", Owner: "x", Grant: 7})
	if q := s.Queues(all).Items[0]; q.Holder == nil || q.Holder.Proxy != "there" || q.Holder.Grant != 7 {
		t.Errorf("%+v", q)
	}
}

// The stale writer: granted, frozen, superseded, refused.
func TestARefusedStaleWriteTellsWhoSupersededIt(t *testing.T) {
	s := newStage(t)
	a, b := agent("worker-a", 1, "42"), agent("worker-b", 2, "42")
	s.granted(a, 10, 0)
	s.reads(a, 10)
	s.at(31 * time.Second)
	s.granted(b, 11, 0)
	s.reads(b, 11)
	if h := s.Holds(Query{Limit: 9, Sort: "session"}); h.Total != 2 || !h.Items[0].Superseded || h.Items[1].Superseded {
		t.Errorf("while both believe to hold: %+v", h)
	}
	s.at(33 * time.Second)
	s.writes(b, 11)
	s.releases(b, 11)
	s.at(45 * time.Second)
	a.Command = "SET"
	s.refused(a, "FENCED", "superseded", 10, event.Party{})

	page := s.Refusals(0, "", all)
	if page.Total != 1 || page.Items[0].Summary != "superseded by worker-b" || page.Items[0].Other == nil || page.Items[0].Other.Grant != 11 {
		t.Fatalf("%+v", page)
	}
	story, ok := s.Story(page.Items[0].Number)
	if !ok {
		t.Fatal("there is no story")
	}
	want := []string{
		"worker-a read the session at 12:00:00.000, under grant 10.",
		"worker-b was granted the session at 12:00:31.000, under grant 11, and wrote it at 12:00:33.000.",
		"The SET of worker-a came at 12:00:45.000, 45 s after the read, under a grant that was no longer the newest.",
		"It was refused with FENCED; nothing was written.",
	}
	if !slices.Equal(story.Story, want) {
		t.Errorf("the story is\n%s\nwant\n%s", strings.Join(story.Story, "\n"), strings.Join(want, "\n"))
	}
	var steps []string
	for _, step := range story.Timeline {
		steps = append(steps, fmt.Sprintf("%v %s %s %d %s", time.Duration(step.Before), step.Role, step.Kind, step.Grant, step.Text))
	}
	wantSteps := []string{
		"45s refused grant 10 was granted the session", "45s refused read 10 read",
		"14s other grant 11 was granted the session", "14s other read 11 read",
		"12s other commit 11 SET was applied", "12s other release 11 gave the session back",
		"0s refused refuse 10 SET was refused with FENCED (superseded)",
	}
	if !slices.Equal(steps, wantSteps) {
		t.Errorf("the timeline is\n%s\nwant\n%s", strings.Join(steps, "\n"), strings.Join(wantSteps, "\n"))
	}
	if h := s.Holds(all); h.Total != 0 {
		t.Errorf("the refused hold still shows: %+v", h)
	}
}

func TestARefusalNamesTheProxyOfWhoSupersededIt(t *testing.T) {
	s := newStage(t)
	a := agent("worker-a", 1, "42")
	s.granted(a, 10, 0)
	s.reads(a, 10)
	s.at(40 * time.Second)
	a.Command = "SET"
	s.refused(a, "FENCED", "superseded", 10, event.Party{Proxy: "there", Client: "10.2.2.2:5", Name: "worker-z", Owner: "z", Grant: 17, Since: noon.Add(35 * time.Second)})
	story, _ := s.Story(1)
	if got := story.Story[1]; got != "worker-z of proxy there was granted the session at 12:00:35.000, under grant 17." {
		t.Errorf("%q", got)
	}
	if step := story.Timeline[2]; step.Who.Proxy != "there" || step.Kind != "grant" || step.Role != "other" {
		t.Errorf("%+v", story.Timeline)
	}
}

func TestWhoWaitedInVainIsToldForWhom(t *testing.T) {
	s := newStage(t)
	a, b := agent("worker-a", 1, "42"), agent("worker-b", 2, "42")
	s.granted(a, 10, 0)
	behind := a.Owner
	behind.Grant, behind.Since = 10, noon
	s.at(time.Second)
	s.asks(b, behind)
	s.at(2500 * time.Millisecond)
	s.quits(b, "timeout")
	s.refused(b, "LOCKED", "timeout", 0, behind)
	page := s.Refusals(0, "LOCKED", all)
	if page.Total != 1 || page.Items[0].Summary != "waited 1.5 s for worker-a" || time.Duration(page.Items[0].Waited) != 1500*time.Millisecond {
		t.Fatalf("%+v", page)
	}
	story, _ := s.Story(page.Items[0].Number)
	want := []string{
		"worker-a was granted the session at 12:00:00.000, under grant 10, and held it still.",
		"The GET of worker-b got in line at 12:00:01.000, waited 1.5 s, and gave up.",
		"It was refused with LOCKED; nothing was written.",
	}
	if !slices.Equal(story.Story, want) {
		t.Errorf("the story is\n%s", strings.Join(story.Story, "\n"))
	}
	if now := s.Now(); now.Waiting != 0 || now.Hour.Locked != 1 || now.Hour.Fenced != 0 || now.Hour.Waits.Count != 1 {
		t.Errorf("%+v", now)
	}
}

// Waits in vain come in numbers; the rare stale write must not be lost among them.
func TestManyWaitsInVainDoNotPushOutAStaleWrite(t *testing.T) {
	s := newStage(t)
	s.refused(agent("stale", 1, "42"), "FENCED", "superseded", 1, event.Party{})
	for i := range 10 * vainMost {
		s.refused(agent("w", uint64(2+i), "42"), "LOCKED", "timeout", 0, event.Party{})
	}
	if page := s.Refusals(0, "FENCED", all); page.Total != 1 {
		t.Errorf("%d stale writes are kept", page.Total)
	}
	page := s.Refusals(0, "", Query{Limit: 1000})
	if page.Total != vainMost+1 {
		t.Errorf("%d refusals are kept", page.Total)
	}
	if newest := page.Items[0].Number; newest != 10*vainMost+1 || s.LastRefusal() != newest {
		t.Errorf("the newest is %d", newest)
	}
}

// A session that many want has more turns than a story tells of: what it does not tell it must not keep either.
func TestAStoryKeepsNoMoreTurnsThanItTells(t *testing.T) {
	s := newStage(t)
	stale := agent("stale", 1, "42")
	s.granted(stale, 1, 0)
	s.reads(stale, 1)
	for i := range 20 {
		e := agent("w", uint64(2+i), "42")
		s.granted(e, uint64(2+i), 0)
		s.reads(e, uint64(2+i))
	}
	s.refused(stale, "FENCED", "superseded", 21, event.Party{})
	others := s.refusals.other.all[0].others
	if len(others) != against {
		t.Fatalf("the story has %d turns, want %d", len(others), against)
	}
	if cap(others) > against+against/2 { // allocations come in certain sizes
		t.Errorf("the story keeps %d turns for the %d that it tells", cap(others), len(others))
	}
}

func TestHoldsAreSortedFilteredAndPaged(t *testing.T) {
	s := newStage(t)
	const n = 10_000
	for i := range n {
		s.at(time.Duration(i) * time.Millisecond)
		e := agent(fmt.Sprintf("worker-%d", i%7), uint64(1+i), fmt.Sprintf("session-%05d", i))
		if i%10 == 0 {
			e.Rule = "jobs"
		}
		s.granted(e, uint64(1000+i), 0)
	}
	s.at(time.Minute)
	names := func(q Query) (total int, names []string) {
		page := s.Holds(q)
		for i := range page.Items {
			names = append(names, page.Items[i].Session.Session)
		}
		return page.Total, names
	}
	for _, try := range []struct {
		query Query
		total int
		want  []string
	}{
		{Query{Limit: 2}, n, []string{"session-00000", "session-00001"}},
		{Query{Limit: 2, Offset: 5000}, n, []string{"session-05000", "session-05001"}},
		{Query{Limit: 2, Up: true}, n, []string{"session-09999", "session-09998"}},
		{Query{Limit: 2, Sort: "session", Up: true, Offset: n - 2}, n, []string{"session-09998", "session-09999"}},
		{Query{Limit: 2, Rule: "jobs"}, n / 10, []string{"session-00000", "session-00010"}},
		{Query{Limit: 1, Text: "04242"}, 1, []string{"session-04242"}},
		{Query{Limit: 1, Text: "worker-3"}, 1429, []string{"session-00003"}},
		{Query{Limit: 5, Offset: 2 * n}, n, nil},
	} {
		if total, got := names(try.query); total != try.total || !slices.Equal(got, try.want) {
			t.Errorf("%+v: %d, %v, want %d, %v", try.query, total, got, try.total, try.want)
		}
	}
	if now := s.Now(); now.Holding != n {
		t.Errorf("%d hold", now.Holding)
	}
}

func TestTheHottestSessionsAreThoseWaitedForMost(t *testing.T) {
	s := newStage(t)
	sequence := uint64(0)
	for i := range 3000 {
		s.at(time.Duration(i) * 100 * time.Millisecond)
		sequence++
		e := agent("w", sequence, fmt.Sprintf("cold-%d", i))
		if i%10 == 0 {
			e = agent("w", sequence, "hot")
		}
		s.asks(e, event.Party{})
		s.granted(e, sequence, time.Second)
		s.releases(e, sequence)
	}
	top := s.Hottest(5)
	if len(top) != 5 || top[0].Session.Session != "hot" || top[0].Count-top[0].Over > 300 || top[0].Count < 300 {
		t.Fatalf("%+v", top)
	}
	s.at(2 * time.Hour)
	if top := s.Hottest(5); len(top) != 0 {
		t.Errorf("two hours later: %+v", top)
	}
}

func TestTheChartsCoverTheLastHour(t *testing.T) {
	s := newStage(t)
	a := agent("w", 1, "42")
	s.asks(a, event.Party{})
	s.at(2 * time.Second)
	s.granted(a, 10, 2*time.Second)
	s.at(30 * time.Minute)
	points := s.Series(time.Minute)
	if len(points) != 60 {
		t.Fatalf("%d points", len(points))
	}
	var counted []Point
	for _, p := range points {
		if p.Grants > 0 {
			counted = append(counted, p)
		}
	}
	if len(counted) != 1 || !counted[0].Start.Equal(noon) || counted[0].Waits.Count != 1 || time.Duration(counted[0].Waits.Median) != 2*time.Second {
		t.Errorf("%+v", counted)
	}
	s.at(2 * time.Hour)
	for _, p := range s.Series(time.Minute) {
		if p.Grants > 0 {
			t.Errorf("two hours later: %+v", p)
		}
	}
}

func TestQuantilesAreNearWhatTheyStandFor(t *testing.T) {
	var h times
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	for share, want := range map[float64]time.Duration{.5: 500 * time.Millisecond, .99: 990 * time.Millisecond} {
		if got := h.quantile(share); got < want*8/10 || got > want*12/10 {
			t.Errorf("%v of 1 to 1000 ms: %v", share, got)
		}
	}
	if (&times{}).quantile(.5) != 0 {
		t.Error("of nothing")
	}
	h.add(time.Hour)
	if h.quantile(1) != time.Hour {
		t.Error(h.quantile(1))
	}
}

// Where a rule only observes, what would have been refused is told apart.
func TestWhatWouldHaveBeenRefusedIsToldApart(t *testing.T) {
	s := newStage(t)
	a := agent("w", 1, "42")
	s.reads(a, 0)
	s.at(time.Second)
	a.Kind, a.Reason, a.Command = event.WouldRefuse, "changed", "SET"
	s.tells(a)
	page := s.Refusals(0, "OBSERVED", all)
	if now := s.Now(); page.Total != 1 || now.Hour.Observed != 1 || now.Hour.Fenced+now.Hour.Locked != 0 {
		t.Errorf("%+v, %+v", page, now.Hour)
	}
	story, _ := s.Story(1)
	if last := story.Story[len(story.Story)-1]; !strings.HasPrefix(last, "The rule only observes") {
		t.Errorf("%q", story.Story)
	}
}

// A grant that was acquired by itself may be given back over any connection, which is told without its sequence.
func TestAGrantApartEndsWithItsRelease(t *testing.T) {
	s := newStage(t)
	a := agent("job", 1, "42")
	a.Apart = true
	s.granted(a, 10, 0)
	if h := s.Holds(all); h.Total != 1 || !h.Items[0].Apart {
		t.Errorf("%+v", h)
	}
	a.Sequence = 0
	s.releases(a, 9)
	if h := s.Holds(all); h.Total != 1 {
		t.Error("another grant's release has ended it")
	}
	s.releases(a, 10)
	if h := s.Holds(all); h.Total != 0 {
		t.Errorf("%+v", h)
	}
	a.Sequence = 2
	s.granted(a, 11, 0)
	s.at(usual.Lease + time.Second) // its end is told to nobody
	if h := s.Holds(all); h.Total != 0 {
		t.Errorf("after its time: %+v", h)
	}
}

// Its proxy hears of it with its next command or renewal only.
func TestAHoldThatWasBrokenIsHeldNoMore(t *testing.T) {
	s := newStage(t)
	a := agent("w", 1, "42")
	s.granted(a, 10, 0)
	s.at(time.Second)
	s.Broken(Name{Rule: "chat", Session: "42"}, 9)
	if s.Holds(all).Total != 1 {
		t.Error("another grant's end has ended it")
	}
	s.Broken(Name{Rule: "chat", Session: "42"}, 10)
	a.Kind, a.Grant, a.Reason = event.Break, 10, "superseded"
	s.at(time.Minute)
	s.tells(a)
	if now := s.Now(); now.Holding != 0 || now.Hour.Breaks != 1 || now.Hour.Holds.Count != 1 || time.Duration(now.Hour.Holds.Longest) != time.Second {
		t.Errorf("%+v", now)
	}
}

func TestWhoLeavesTheLineWaitsNoMore(t *testing.T) {
	s := newStage(t)
	a := agent("w", 1, "42")
	s.asks(a, event.Party{Proxy: "there", Owner: "x"})
	s.at(time.Second)
	s.quits(a, "gone")
	if now := s.Now(); now.Waiting != 0 || now.Hour.Waits.Count != 1 || s.Queues(all).Total != 0 {
		t.Errorf("%+v", now)
	}
}

// A turn whose end nobody tells of does not show for ever.
func TestATurnWithoutAnEndIsGoneInTheEnd(t *testing.T) {
	s := newStage(t)
	s.granted(agent("a", 1, "held"), 10, 0)
	s.asks(agent("b", 2, "waited for"), event.Party{})
	s.at(usual.MaxHold + slack - time.Second)
	if now := s.Now(); now.Holding != 1 || now.Waiting != 0 {
		t.Errorf("shortly before: %+v", now)
	}
	s.at(usual.MaxHold + slack + sweepEvery)
	if now := s.Now(); now.Holding != 0 {
		t.Errorf("%+v", now)
	}
}

func TestNamesThatAreNoTextAreEscapedAndLongOnesClipped(t *testing.T) {
	s := newStage(t)
	s.granted(agent("evil\x1b[2J", 1, "a\x00\xffb"), 10, 0)
	s.granted(agent("b", 2, strings.Repeat("x", 10_000)), 11, 0)
	holds := s.Holds(Query{Limit: 10, Sort: "session", Up: true}).Items
	if holds[0].Session.Session != `a\x00\xffb` || holds[0].Holder.Name != `evil\x1b[2J` {
		t.Errorf("%+v", holds[0])
	}
	if len(holds[1].Session.Session) != sessionMost || !holds[1].Clipped {
		t.Errorf("%d bytes, clipped: %v", len(holds[1].Session.Session), holds[1].Clipped)
	}
	if name, ok := s.Find(holds[0].ID); !ok || name.Session != "a\x00\xffb" {
		t.Errorf("%q", name.Session)
	}
}

func TestIDsAndTimesSurviveJSON(t *testing.T) {
	text, err := json.Marshal(Waiter{Waited: Millis(1234567 * time.Nanosecond)})
	if err != nil || !strings.Contains(string(text), `"waited_ms":1.235`) {
		t.Errorf("%s, %v", text, err)
	}
	var back struct{ ID ID }
	if err := json.Unmarshal([]byte(`{"ID":"00000000000000ff"}`), &back); err != nil || back.ID != 255 {
		t.Errorf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"ID":"ff"}`), &back); err == nil {
		t.Error("a short id is taken")
	}
}

// What comes without end stays within bounds, and what is shown is still right.
func TestMemoryIsBounded(t *testing.T) {
	s := newStage(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	long := strings.Repeat("s", 2*sessionMost)
	for i := range 44_000 {
		s.at(time.Duration(i) * 100 * time.Microsecond) // too short for any of them to count as over
		e := agent(fmt.Sprintf("%s-%d", long, i), uint64(1+i), fmt.Sprintf("%d-%s", i, long))
		s.asks(e, e.Owner)
		if i%4 == 0 {
			continue // they wait for ever
		}
		s.granted(e, uint64(1+i), time.Second)
		s.reads(e, uint64(1+i))
		if i%4 == 1 {
			continue // they hold for ever
		}
		s.writes(e, uint64(1+i))
		s.releases(e, uint64(1+i))
		if i%32 == 2 {
			s.refused(e, "FENCED", "superseded", uint64(1+i), e.Owner)
		}
	}
	grown := int64(heap()) - int64(before)
	t.Logf("%d MB", grown>>20)
	if grown > 40<<20 {
		t.Errorf("the heap has grown by %d MB", grown>>20)
	}
	now := s.Now()
	if open := now.Holding + now.Waiting; open > openMost*shardCount {
		t.Errorf("%d turns are open", open)
	}
	for i := range s.shards {
		shard, holding, waiting, ended := &s.shards[i], 0, 0, 0
		for _, known := range shard.sessions {
			for _, open := range known.turns[openList] {
				if open.holds() {
					holding++
				} else {
					waiting++
				}
			}
			ended += len(known.turns[pastList]) + len(known.turns[looseList])
			if known.empty() || len(known.turns[noList]) > 0 {
				t.Fatalf("a session is kept for nothing: %+v", known)
			}
		}
		if holding != shard.holding || waiting != shard.waiting || ended > pastMost {
			t.Errorf("shard %d: %d hold and %d wait, counted are %d and %d; %d have ended", i, holding, waiting, shard.holding, shard.waiting, ended)
		}
	}
	runtime.KeepAlive(s)
}

func TestManyMayTellWhileManyLook(t *testing.T) {
	c := New(func(string) Terms { return usual })
	var tellers, lookers sync.WaitGroup
	done := make(chan struct{})
	for worker := range 8 {
		tellers.Go(func() {
			for i := range 500 {
				e := agent("w", uint64(1+worker*1000+i), fmt.Sprint(i%5))
				for _, kind := range []event.Kind{event.Wait, event.Grant, event.Read, event.Commit, event.Release, event.Refuse} {
					e.Kind, e.Grant, e.Error, e.At = kind, uint64(1+i), "FENCED", time.Now()
					c.Event(&e)
				}
			}
		})
	}
	for range 2 {
		lookers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c.Now()
				c.Holds(all)
				c.Queues(all)
				c.Hottest(10)
				c.Series(time.Minute)
				for _, r := range c.Refusals(0, "", all).Items {
					c.Story(r.Number)
					c.Session(r.ID)
				}
			}
		})
	}
	tellers.Wait()
	close(done)
	lookers.Wait()
	if now := c.Now(); now.Holding != 0 || now.Waiting != 0 || now.Hour.Grants != 8*500 || now.LastRefusal != 8*500 {
		t.Errorf("%+v", now)
	}
}

// BenchmarkCycle is what the guard pays for telling of a read, its write, and what is around them.
func BenchmarkCycle(b *testing.B) {
	c := New(func(string) Terms { return usual })
	events := make([]event.Event, 4)
	for i, kind := range []event.Kind{event.Grant, event.Read, event.Commit, event.Release} {
		events[i] = agent("worker", 1, "42")
		events[i].Kind, events[i].Grant, events[i].At = kind, 1, time.Now()
	}
	b.ReportAllocs()
	for i := range b.N {
		for j := range events {
			events[j].Sequence = uint64(1 + i)
			c.Event(&events[j])
		}
	}
}
