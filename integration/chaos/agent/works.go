package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/chaos/history"
)

// works are what an agent may do, by name.
var works = map[string]func(*worker) error{
	"update":      (*worker).update,
	"late":        (*worker).lateUpdate,
	"blind":       (*worker).blind,
	"push":        (*worker).push,
	"count":       (*worker).count,
	"grow":        (*worker).grow,
	"transaction": (*worker).transaction,
	"watch":       (*worker).watch,
	"claim":       (*worker).claim,
	"grant":       (*worker).grant,
	"offer":       (*worker).offer,
	"take":        (*worker).take,
	"once":        (*worker).once,
	"plain":       (*worker).plain,
	"foreign":     (*worker).foreign,
}

const defaultMix = "update=8,late=2,blind=1,push=3,count=1,transaction=2,watch=1,grant=2,offer=1,take=3,once=1,plain=1"

// A turn keeps to one connection: a write over another one than its read's, made anew by the library, would be a blind one.

func (w *worker) read(c redis.Cmdable, session string) (op *history.Op, err error) {
	op = &history.Op{Kind: history.Read, Session: session}
	err = w.ask(op, func(ctx context.Context) error {
		was, err := c.Get(ctx, history.ValueKey(session)).Result()
		op.Got = bare(was)
		return err
	})
	return op, err
}

func (w *worker) write(c redis.Cmdable, read *history.Op) error {
	op := &history.Op{Kind: history.Update, Session: read.Session, Was: read.Got}
	return w.ask(op, func(ctx context.Context) error {
		return c.Set(ctx, history.ValueKey(op.Session), w.padded(op.Value), 0).Err()
	})
}

// update reads, thinks and writes.
func (w *worker) update() error {
	c := w.client.Conn()
	defer c.Close()
	read, err := w.read(c, w.session())
	if err != nil {
		return err
	}
	w.ponder()
	return w.write(c, read)
}

// lateUpdate reads once more of the session before it writes: what it has read first may be stale by then.
func (w *worker) lateUpdate() error {
	c := w.client.Conn()
	defer c.Close()
	read, err := w.read(c, w.session())
	if err != nil {
		return err
	}
	for range 1 + w.random.IntN(3) {
		w.ponder()
		if err := c.LLen(context.Background(), history.ListKey(read.Session)).Err(); err != nil {
			return errVain
		}
	}
	w.ponder()
	return w.write(c, read)
}

func (w *worker) blind() error {
	op := &history.Op{Kind: history.Blind, Session: w.session()}
	return w.ask(op, func(ctx context.Context) error {
		return w.client.Set(ctx, history.ValueKey(op.Session), w.padded(op.Value), 0).Err()
	})
}

func (w *worker) push() error {
	op := &history.Op{Kind: history.Push, Session: w.session()}
	return w.ask(op, func(ctx context.Context) (err error) {
		op.Number, err = w.client.RPush(ctx, history.ListKey(op.Session), op.Value).Result()
		return err
	})
}

// grow reads the list before it appends to it.
func (w *worker) grow() error {
	c := w.client.Conn()
	defer c.Close()
	op := &history.Op{Kind: history.Push, Session: w.session()}
	key := history.ListKey(op.Session)
	if err := c.LLen(context.Background(), key).Err(); err != nil {
		return errVain
	}
	w.ponder()
	return w.ask(op, func(ctx context.Context) (err error) {
		op.Number, err = c.RPush(ctx, key, op.Value).Result()
		return err
	})
}

func (w *worker) count() error {
	op := &history.Op{Kind: history.Count, Session: w.session()}
	return w.ask(op, func(ctx context.Context) (err error) {
		op.Number, err = w.client.Incr(ctx, history.CountKey(op.Session)).Result()
		return err
	})
}

// transaction writes value and list as one.
func (w *worker) transaction() error {
	c := w.client.Conn()
	defer c.Close()
	read, err := w.read(c, w.session())
	if err != nil {
		return err
	}
	w.ponder()
	op := &history.Op{Kind: history.Update, Session: read.Session, Was: read.Got, Pushes: true}
	return w.ask(op, func(ctx context.Context) error { return w.both(ctx, c, op) })
}

func (w *worker) both(ctx context.Context, c redis.Cmdable, op *history.Op) error {
	var length *redis.IntCmd
	_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, history.ValueKey(op.Session), w.padded(op.Value), 0)
		length = p.RPush(ctx, history.ListKey(op.Session), op.Value)
		return nil
	})
	if err == nil {
		op.Number = length.Val()
	}
	return err
}

// watch is transaction under a WATCH of the agent's own.
func (w *worker) watch() error {
	session := w.session()
	return w.client.Watch(context.Background(), func(tx *redis.Tx) error {
		read, err := w.read(tx, session)
		if err != nil {
			return err
		}
		w.ponder()
		op := &history.Op{Kind: history.Update, Session: session, Was: read.Got, Pushes: true}
		return w.ask(op, func(ctx context.Context) error { return w.both(ctx, tx, op) })
	}, history.ValueKey(session))
}

// An offer's hold is short, since it may be that nobody takes it up.
const grantTTL, offerTTL = 2 * time.Second, 500 * time.Millisecond

func (w *worker) acquire(session string, ttl time.Duration) (grant uint64, err error) {
	op := &history.Op{Kind: history.Acquire, Session: session, TTL: int64(ttl)}
	err = w.ask(op, func(ctx context.Context) (err error) {
		op.Grant, err = w.grants.Do(ctx, "FENCE.ACQUIRE", history.ValueKey(session), "TTL", ttl.Milliseconds(), "WAIT", 500).Uint64()
		return err
	})
	return op.Grant, err
}

// under reads, thinks and writes under a grant, from whichever connection.
func (w *worker) under(session string, grant uint64) (written *history.Op, err error) {
	read := &history.Op{Kind: history.GrantRead, Session: session, Grant: grant}
	err = w.ask(read, func(ctx context.Context) error {
		was, err := w.grants.Do(ctx, "FENCE.DO", grant, "GET", history.ValueKey(session)).Text()
		read.Got = bare(was)
		return err
	})
	if err != nil {
		return nil, err
	}
	w.ponder()
	return read, w.writeUnder(read)
}

func (w *worker) writeUnder(read *history.Op) error {
	op := &history.Op{Kind: history.GrantUpdate, Session: read.Session, Grant: read.Grant, Was: read.Got}
	return w.ask(op, func(ctx context.Context) error {
		return w.grants.Do(ctx, "FENCE.DO", op.Grant, "SET", history.ValueKey(op.Session), w.padded(op.Value)).Err()
	})
}

func (w *worker) release(session string, grant uint64) error {
	op := &history.Op{Kind: history.Release, Session: session, Grant: grant}
	return w.ask(op, func(ctx context.Context) (err error) {
		op.Number, err = w.grants.Do(ctx, "FENCE.RELEASE", history.ValueKey(session), grant).Int64()
		return err
	})
}

// claim acquires a session and gives it back.
func (w *worker) claim() error {
	session := w.session()
	grant, err := w.acquire(session, grantTTL)
	if err != nil {
		return err
	}
	w.ponder()
	return w.release(session, grant)
}

// grant acquires a session, works under the grant, and gives it back; and sometimes tries to go on under it.
func (w *worker) grant() error {
	session := w.session()
	grant, err := w.acquire(session, grantTTL)
	if err != nil {
		return err
	}
	return w.spend(session, grant)
}

func (w *worker) spend(session string, grant uint64) error {
	var last *history.Op
	for range 1 + w.random.IntN(2) {
		read, err := w.under(session, grant)
		if err != nil {
			return err
		}
		last = read
	}
	w.ponder()
	if err := w.release(session, grant); err != nil {
		return err
	}
	switch w.random.IntN(4) {
	case 0:
		w.ponder()
		_, _ = w.under(session, grant)
	case 1:
		w.ponder()
		_ = w.writeUnder(&history.Op{Session: session, Grant: grant, Got: last.Got})
	}
	return nil
}

// offer acquires a session and hands it on.
func (w *worker) offer() error {
	session := w.session()
	grant, err := w.acquire(session, offerTTL)
	if err != nil {
		return err
	}
	return w.client.RPush(context.Background(), history.JobsKey, fmt.Sprint(session, " ", grant)).Err()
}

// take goes on under a grant that was handed on, perhaps long ago.
func (w *worker) take() error {
	job, err := w.client.LPop(context.Background(), history.JobsKey).Result()
	if err != nil {
		return err
	}
	session, number, _ := strings.Cut(job, " ")
	grant, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return err
	}
	return w.spend(session, grant)
}

// onceTries bounds how often a write is said again; onceTTL is longer than that may take.
const (
	onceTries = 5
	onceTTL   = 5 * time.Minute
)

// once repeats a write until it is answered.
func (w *worker) once() error {
	op := &history.Op{Kind: history.Push, Session: w.session()}
	return w.ask(op, func(ctx context.Context) (err error) {
		key := history.ListKey(op.Session)
		for range onceTries {
			op.Number, err = w.client.Do(ctx, "FENCE.ONCE", op.Value, onceTTL.Milliseconds(), "RPUSH", key, op.Value).Int64()
			switch fate := fateOf(err); {
			case fate == history.Done:
				op.Fate = fate
				return err
			case op.Fate == history.Unknown:
			case fate == history.Unknown:
				op.Fate = fate // a refusal of what was sent then says nothing of this
			default:
				return err
			}
			time.Sleep(breather)
		}
		return err
	})
}

// plain writes a key of the agent's own that no rule guards, and reads it back.
func (w *worker) plain() error {
	c := w.client.Conn()
	defer c.Close()
	session, key := "plain "+w.name, "plain:"+w.name
	op := &history.Op{Kind: history.Blind, Session: session}
	err := w.ask(op, func(ctx context.Context) error { return c.Set(ctx, key, w.padded(op.Value), 0).Err() })
	if err != nil {
		return err
	}
	read := &history.Op{Kind: history.Read, Session: session}
	return w.ask(read, func(ctx context.Context) error {
		was, err := c.Get(ctx, key).Result()
		read.Got = bare(was)
		return err
	})
}

// foreign writes with a command that Redis has and does not tell of.
func (w *worker) foreign() error {
	op := &history.Op{Kind: history.Blind, Session: w.session()}
	return w.ask(op, func(ctx context.Context) error {
		return w.client.Do(ctx, history.ForeignSet, history.ValueKey(op.Session), w.padded(op.Value)).Err()
	})
}
