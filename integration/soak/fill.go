//go:build integration

package soak

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// remembered is more than the sequences that a proxy keeps for its status page: 16,384 that are over, apart by their sessions.
const remembered = 20480

// fill has a proxy remember all that it will ever remember, before its memory is looked at.
func fill(t *testing.T, addr string) {
	t.Helper()
	const clients, atOnce = 8, 16
	var all sync.WaitGroup
	for client := range clients {
		c := harness.Dial(t, addr)
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
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
}
