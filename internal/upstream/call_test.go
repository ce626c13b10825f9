package upstream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// Replies of all sizes, many of which lie on the edge of a chunk, reach their calls whole; and stay so while
// others come.
func TestRepliesStayWholeUntilTheyAreReleased(t *testing.T) {
	e := newEcho(t)
	s := e.shared(t, 8)
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 1))
			before, kept := NewCall(), ""
			for range 100 {
				var want []byte
				c := NewCall()
				for range 1 + random.IntN(4) {
					line := bytes.Repeat([]byte{byte('a' + random.IntN(26))}, 1+random.IntN(1+random.IntN(60<<10)))
					c.Requests = append(append(c.Requests, line...), '\n')
					c.Frames++
					want = fmt.Appendf(want, "+%s\r\n", line)
				}
				if err := s.Do(c); err != nil || !bytes.Equal(c.Replies, want) {
					t.Errorf("%d bytes of replies are not the %d that were asked for (%v)", len(c.Replies), len(want), err)
					return
				}
				if string(before.Replies) != kept {
					t.Error("replies changed before they were released")
					return
				}
				before.Release()
				before, kept = c, string(want)
			}
		})
	}
	clients.Wait()
}

func TestAChunkIsUsedAgainWhenItsLastUserHasReleasedIt(t *testing.T) {
	var in inbox
	a, b := NewCall(), NewCall()
	first := in.room()
	a.take(in.take(chunkSize-chunkLeast), 0)
	rest := in.room()
	b.take(in.take(10), 0)
	if len(rest) != chunkLeast || &rest[0] != &first[chunkSize-chunkLeast] {
		t.Fatalf("room for %d bytes behind what was read", len(rest))
	}
	if other := in.room(); &other[0] == &first[0] || len(other) != chunkSize {
		t.Fatalf("%d bytes of a chunk that is in use", len(other))
	}
	a.Release()
	users := b.part.in.users.Load()
	b.Release()
	if users != 1 || b.part.in != nil || b.Replies != nil {
		t.Errorf("%d calls used it besides the one that had released it", users-1)
	}
	c := NewCall()
	c.take(in.take(10), 0)
	c.Release()
	if again := in.room(); len(again) != chunkSize {
		t.Errorf("room for %d bytes where nothing is in use", len(again))
	}
}

func TestOfACallsTooManyRepliesTheWholeOnesAreKept(t *testing.T) {
	s := newEcho(t).shared(t, 1)
	s.Limit(Limits{Kept: 20})
	got, err := say(s, "short", "0123456789", "0123456789")
	if want := "+short\r\n"; got != want || err == nil {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	if got, err := say(s, "next"); got != "+next\r\n" || err != nil {
		t.Errorf("then %q, %v", got, err)
	}
}
