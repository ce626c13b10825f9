package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long an answer may take beyond what the rule lets a command wait.
const patience = 5 * time.Second

// race is one run of the agents on one key.
type race struct {
	key     string
	updates int // of each agent
	think   time.Duration
	pause   *pause
	wait    time.Duration // that the rule lets a command wait
}

// run races one agent for each of ways, which says how it reaches Redis, and returns when all have
// ended. The first error ends all of them.
func (r *race) run(ctx context.Context, ways []redis.Options) ([]*agent, time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	agents := make([]*agent, len(ways))
	var running sync.WaitGroup
	start := time.Now()
	for i := range ways {
		a := &agent{race: r, name: agentName(i), last: i == len(ways)-1}
		agents[i] = a
		running.Go(func() {
			if err := r.drive(ctx, a, ways[i]); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return agents, time.Since(start), context.Cause(ctx)
}

// drive gives an agent its connection, which ends with ctx, and runs it.
func (r *race) drive(ctx context.Context, a *agent, way redis.Options) error {
	way.ClientName, way.Protocol, way.MaxRetries, way.ReadTimeout = a.name, 2, -1, r.wait+patience
	client := redis.NewClient(&way)
	defer client.Close()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	defer stop()
	a.conn = client.Conn()
	defer a.conn.Close()
	return a.run(ctx)
}

func agentName(i int) string { return fmt.Sprintf("agent-%d", i+1) }
