package bench

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// contest is what all ways did at one distance, with one number of clients that share some keys.
type contest struct {
	rtt           time.Duration // that relays add between clients, or their proxy, and all servers
	distance      time.Duration // a PING, the client's own work included
	clients, keys int
	contestants   []*contestant
	server        *redis.Client // straight at Redis
}

// by returns the contestant of a name.
func (c *contest) by(name string) *contestant {
	for _, one := range c.contestants {
		if one.name == name {
			return one
		}
	}
	return nil
}

// over is a contestant's rate over another's.
func (c *contest) over(one *contestant, name string) float64 {
	return one.rate.over(c.by(name).rate).median()
}
