package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// valueTTL takes the session away should nobody else do so.
const valueTTL = 10 * time.Minute

// agent is one party of a race. Its counts belong to its goroutine until that has ended.
type agent struct {
	race *race
	name string
	conn *redis.Conn // one connection for the read and the write of an update
	last bool        // the agent that is paused

	acknowledged []string      // entries whose write was answered with OK
	refused      int           // stale writes, with FENCED
	locked       int           // reads and writes that waited in vain, with LOCKED
	longest      time.Duration // that a read waited for its answer
}

// run makes the agent's updates, one after the other.
func (a *agent) run(ctx context.Context) error {
	for n := 1; n <= a.race.updates; n++ {
		if n == a.race.updates && !a.last {
			if err := await(ctx, a.race.pause.begun); err != nil {
				return err
			}
		}
		interrupt := a.think
		if n == a.race.updates/2+1 && a.last {
			interrupt = a.race.pause.take
		}
		if err := a.update(ctx, fmt.Sprintf("%s update %d", a.name, n), interrupt); err != nil {
			return fmt.Errorf("%s, update %d: %w", a.name, n, err)
		}
	}
	return nil
}

// update adds an entry to the session: read, think, write, and all of it again when refused.
func (a *agent) update(ctx context.Context, entry string, think func(context.Context) error) error {
	for {
		overtakes := !a.last && a.race.pause.hasBegun()
		session, err := a.read(ctx)
		if err == nil {
			if err := think(ctx); err != nil {
				return err
			}
			think = a.think // a pause is taken once
			err = a.write(ctx, append(session, entry))
		}
		switch {
		case err == nil:
			a.acknowledged = append(a.acknowledged, entry)
			if overtakes {
				a.race.pause.overtake()
			}
			return nil
		case redis.HasErrorPrefix(err, "LOCKED "):
			a.locked++
		case redis.HasErrorPrefix(err, "FENCED "):
		default:
			return err
		}
	}
}

func (a *agent) think(ctx context.Context) error { return sleep(ctx, a.race.think) }

func (a *agent) read(ctx context.Context) ([]string, error) {
	asked := time.Now()
	text, err := a.conn.Get(ctx, a.race.key).Bytes()
	a.longest = max(a.longest, time.Since(asked))
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseSession(text)
}

func (a *agent) write(ctx context.Context, session []string) error {
	text, err := json.Marshal(session)
	if err != nil {
		return err
	}
	err = a.conn.Set(ctx, a.race.key, text, valueTTL).Err()
	if redis.HasErrorPrefix(err, "FENCED ") {
		a.refused++
	}
	return err
}

func parseSession(text []byte) ([]string, error) {
	var session []string
	if err := json.Unmarshal(text, &session); err != nil {
		return nil, fmt.Errorf("the session is not the demo's: %w", err)
	}
	return session, nil
}
