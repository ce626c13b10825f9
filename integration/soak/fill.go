//go:build integration

package soak

import (
	"fmt"
	"strings"
	"sync"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// These are more than a proxy keeps for its status page.
const (
	remembered = 20480 // sequences: 16,384 that are over, apart by their sessions
	hot        = 2500  // sessions that were waited for or refused: 2,048
	stories    = 300   // refusals: 256, beside 128 of those who have waited in vain
)

// fill has the subject remember all that it will ever remember, before its memory is looked at.
func (s *street) fill() {
	s.Helper()
	s.fillTurns()
	s.fillStories()
	for _, rules := range append(variants[1:], variants[0]) { // each has series of its own
		s.subject.revise(rules)
	}
}

func (s *street) fillTurns() {
	s.Helper()
	const clients, atOnce = 32, 16
	var all sync.WaitGroup
	for client := range clients {
		c := harness.Dial(s, s.home.addr)
		all.Go(func() {
			defer c.Close()
			for n := 0; n < remembered/clients; n += atOnce {
				var requests strings.Builder
				for i := range atOnce {
					key := fmt.Sprintf("ctx:fill:%d:%d", client, n+i)
					requests.WriteString(harness.Encode("GET", key) + harness.Encode("SET", key, "v", "PX", "20000"))
				}
				c.Send(requests.String())
				for range 2 * atOnce {
					if _, err := c.Read(); err != nil {
						s.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// fillStories has many sessions refused, and then one that so many have held that a story of it is as long as any.
func (s *street) fillStories() {
	s.Helper()
	c := harness.Dial(s, s.home.addr)
	defer c.Close()
	do := func(want string, n int, command func(i int) string) {
		var requests strings.Builder
		for i := range n {
			requests.WriteString(command(i))
		}
		c.Send(requests.String())
		for range n {
			if reply := c.ReadReply(); !strings.HasPrefix(string(reply), want) {
				s.Fatalf("got %q, want %s", reply, want)
			}
		}
	}
	const key = "ctx:fill:story"
	do("+OK", 10, func(int) string { return harness.Encode("SET", key, "v", "PX", "20000") })
	do("-FENCED", hot, func(i int) string { return harness.Encode("FENCE.DO", "1", "SET", fmt.Sprint("ctx:fill:hot:", i), "v") })
	do("-FENCED", stories, func(int) string { return harness.Encode("FENCE.DO", "1", "SET", key, "v") })
	harness.Eventually(s, 0, func() bool { // one is granted the session, for a second, and the others are not
		for range 50 {
			c.Do("FENCE.ACQUIRE", key, "WAIT", "0")
		}
		return s.subject.total("refusals") == 256+128
	}, "the subject keeps as many refusals as it ever will")
}
