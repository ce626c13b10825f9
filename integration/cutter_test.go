//go:build integration

package integration

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// cutter ends connections between the proxy and Redis.
type cutter interface {
	// cut returns when a connection has ended, in one of several ways.
	cut(random *rand.Rand)
	// close ends all.
	close()
}

// shears are relays as a cutter.
type shears []*harness.Relay

func (s shears) cut(random *rand.Rand) {
	n, relay := random.IntN(5000), s[random.IntN(len(s))]
	switch random.IntN(3) {
	case 0:
		<-relay.CutAfterBytes(harness.ToServer, n)
	case 1:
		<-relay.CutAfterBytes(harness.ToClient, n)
	default:
		cut, deliver := relay.HauntAfterBytes(n)
		<-cut
		time.AfterFunc(time.Duration(random.IntN(100))*time.Millisecond, deliver)
	}
}

// close drops what is still held back.
func (s shears) close() {
	for _, relay := range s {
		relay.Close()
	}
}

// poison is toxiproxy as a cutter.
type poison struct {
	tb     testing.TB
	direct *redis.Client
	way    *harness.Toxiproxy
}

func (p *poison) cut(random *rand.Rand) {
	toxic := harness.Toxic{Stream: []string{"upstream", "downstream"}[random.IntN(2)]}
	if random.IntN(4) > 0 {
		toxic.Type, toxic.Attributes = "limit_data", map[string]int{"bytes": random.IntN(5000)}
	} else {
		toxic.Type, toxic.Attributes = "reset_peer", map[string]int{"timeout": random.IntN(10)}
	}
	before := p.connections()
	remove := p.way.Add(toxic)
	harness.Eventually(p.tb, 0, func() bool { return p.connections() > before }, "the proxy connects anew")
	remove()
}

func (p *poison) close() { p.way.Close() }

// connections is how many there ever were.
func (p *poison) connections() int {
	_, rest, _ := strings.Cut(p.direct.Info(p.tb.Context(), "stats").Val(), "total_connections_received:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.Atoi(text)
	if err != nil {
		p.tb.Error("INFO stats: ", err)
	}
	return n
}
