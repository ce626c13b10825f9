//go:build integration

package clients

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// goRedis is go-redis, with its connections in a pool.
func goRedis(protocol int) func(context.Context, string, servers) (report, error) {
	g := goRedisClient{protocol}
	return tasks{
		"handshake": g.handshake, "use": g.use, "killed": g.killed, "refusals": g.refusals, "workers": g.workers,
		"turns": g.turns(false), "shared turns": g.turns(true),
	}.do
}

type goRedisClient struct{ protocol int }

func (g goRedisClient) connect(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Protocol: g.protocol})
}

func (g goRedisClient) worker(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Protocol: g.protocol, ClientName: "worker-1", DB: 2})
}

// straight is a client for what the proxy must not see.
func straight(addr string, db int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, DB: db})
}

func (g goRedisClient) handshake(ctx context.Context, r report, to servers) error {
	defaults, worker := g.connect(to.proxy), g.worker(to.proxy)
	defer defaults.Close()
	defer worker.Close()
	r.step("defaults", func() (any, error) { return defaults.Echo(ctx, "defaults").Result() })
	r.step("name and database", func() (any, error) { return worker.Echo(ctx, "name and database").Result() })
	return nil
}

func (g goRedisClient) use(ctx context.Context, r report, to servers) error {
	client, defaults := g.worker(to.proxy), g.connect(to.proxy)
	defer client.Close()
	defer defaults.Close()
	admin, zero := straight(to.redis, 2), straight(to.redis, 0)
	defer admin.Close()
	defer zero.Close()

	r.step("connect with defaults", func() (any, error) {
		pong, err := defaults.Ping(ctx).Result()
		return pong == "PONG", err
	})
	r.step("connect with name and database", func() (any, error) {
		if err := client.Ping(ctx).Err(); err != nil {
			return nil, err
		}
		all, err := connections(ctx, admin)
		if err != nil {
			return nil, err
		}
		return []any{all[0].name, all[0].db}, nil
	})
	r.step("select", func() (any, error) {
		err := client.Set(ctx, "selected", "in 2", 0).Err()
		return []any{text(admin.Get(ctx, "selected")), text(zero.Get(ctx, "selected"))}, err
	})
	r.step("pipeline", func() (any, error) {
		replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := range 500 {
				pipe.Set(ctx, fmt.Sprintf("pipeline:%d", i), i, 0)
				pipe.Get(ctx, fmt.Sprintf("pipeline:%d", i))
			}
			return nil
		})
		right := 0
		for i, reply := range replies {
			switch reply := reply.(type) {
			case *redis.StatusCmd:
				if i%2 == 0 && reply.Val() == "OK" {
					right++
				}
			case *redis.StringCmd:
				if i%2 == 1 && reply.Val() == strconv.Itoa(i/2) {
					right++
				}
			}
		}
		return right, err
	})
	r.step("transaction", func() (any, error) {
		var (
			ok    *redis.StatusCmd
			n     *redis.IntCmd
			value *redis.StringCmd
		)
		_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			ok, n, value = pipe.Set(ctx, "transaction", "v", 0), pipe.Incr(ctx, "transaction:n"), pipe.Get(ctx, "transaction")
			return nil
		})
		return []any{ok.Val() == "OK", n.Val(), value.Val()}, err
	})
	r.step("watch", func() (any, error) {
		for attempts := 1; ; attempts++ {
			err := client.Watch(ctx, func(tx *redis.Tx) error {
				value, err := tx.Get(ctx, "watched").Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					return err
				}
				if attempts == 1 {
					admin.Set(ctx, "watched", "theirs", 0)
				}
				_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					return pipe.Set(ctx, "watched", value+", mine", 0).Err()
				})
				return err
			}, "watched")
			if !errors.Is(err, redis.TxFailedErr) {
				return []any{attempts, client.Get(ctx, "watched").Val()}, err
			}
		}
	})
	r.step("publish and subscribe", func() (any, error) {
		subscriber := client.Subscribe(ctx, "news")
		defer subscriber.Close()
		if err := subscriber.PSubscribe(ctx, "new?:*"); err != nil {
			return nil, err
		}
		for range 2 {
			if _, err := subscriber.Receive(ctx); err != nil {
				return nil, err
			}
		}
		receivers := []int64{client.Publish(ctx, "news", "one").Val(), client.Publish(ctx, "news:more", "two").Val()}
		var messages [][]string
		for range 2 {
			message, err := subscriber.ReceiveMessage(ctx)
			if err != nil {
				return nil, err
			}
			messages = append(messages, []string{message.Channel, message.Payload})
		}
		return []any{receivers, messages}, nil
	})
	r.step("blocking pop", func() (any, error) {
		pushed := pushWhenBlocked(ctx, admin)
		popped, err := client.BLPop(ctx, 30*time.Second, "jobs").Result()
		return popped, errors.Join(err, <-pushed)
	})
	r.step("big value", func() (any, error) {
		err := client.Set(ctx, "big", bigValue, 0).Err()
		return []any{len(bigValue), client.Get(ctx, "big").Val() == bigValue}, err
	})
	r.step("binary value", func() (any, error) {
		err := client.Set(ctx, "binary\r\n\x00\xff", everyByte(), 0).Err()
		return hex.EncodeToString([]byte(client.Get(ctx, "binary\r\n\x00\xff").Val())), err
	})
	r.step("scan", func() (any, error) {
		var pairs []any
		for i := range 500 {
			pairs = append(pairs, fmt.Sprintf("scan:%d", i), i)
		}
		if err := client.MSet(ctx, pairs...).Err(); err != nil {
			return nil, err
		}
		found := map[string]bool{}
		all := client.Scan(ctx, 0, "scan:*", 20).Iterator()
		for all.Next(ctx) {
			found[all.Val()] = true
		}
		return len(found), all.Err()
	})
	r.step("script", func() (any, error) {
		script := redis.NewScript(incrementBy)
		var replies []any
		for n := range 3 {
			if n == 2 {
				client.ScriptFlush(ctx)
			}
			reply, err := script.Run(ctx, client, []string{"scripted"}, 1).Result()
			if err != nil {
				return nil, err
			}
			replies = append(replies, reply)
		}
		return replies, nil
	})
	r.step("pool", func() (any, error) {
		failed := together(16, func(i int) error {
			key := fmt.Sprintf("pool:%d", i)
			for n := range 50 {
				err := client.Set(ctx, key, n, 0).Err()
				if got := client.Get(ctx, key).Val(); err != nil || got != strconv.Itoa(n) {
					return fmt.Errorf("%s: %q, want %d (%w)", key, got, n, err)
				}
			}
			return nil
		})
		return len(failed), nil
	})
	return nil
}

func (g goRedisClient) killed(ctx context.Context, r report, to servers) error {
	client, admin := g.worker(to.proxy), straight(to.redis, 2)
	defer client.Close()
	defer admin.Close()
	subscriber := client.Subscribe(ctx, "news")
	defer subscriber.Close()
	if _, err := subscriber.Receive(ctx); err != nil {
		return err
	}
	if err := client.Set(ctx, "before", 1, 0).Err(); err != nil {
		return err
	}
	before, err := killConnections(ctx, admin)
	if err != nil {
		return err
	}
	refusals := []string{}

	r.step("commands go on", func() (any, error) {
		for ctx.Err() == nil {
			err := client.Set(ctx, "after", 1, 0).Err()
			if err == nil {
				break
			}
			if reply := redis.Error(nil); errors.As(err, &reply) {
				refusals = append(refusals, err.Error())
			}
		}
		now, err := connections(ctx, admin)
		if err != nil {
			return nil, err
		}
		return []any{client.Get(ctx, "before").Val(), client.Get(ctx, "after").Val(), now[0].db, !slices.Contains(before, now[0].id)}, nil
	})
	r.step("subscriptions go on", func() (any, error) {
		messages := subscriber.Channel()
		for {
			admin.Publish(ctx, "news", "after")
			select {
			case message := <-messages:
				return message.Payload, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	r.step("refusals in between", func() (any, error) { return refusals, nil })
	return nil
}

func (g goRedisClient) refusals(ctx context.Context, r report, to servers) error {
	named := func(name string) *redis.Client {
		return redis.NewClient(&redis.Options{Addr: to.proxy, Protocol: g.protocol, ClientName: name, ReadTimeout: patience})
	}
	holder, other := named("holder"), named("other")
	defer holder.Close()
	defer other.Close()
	a, b := holder.Conn(), other.Conn()

	r.step("locked", func() (any, error) {
		a.Get(ctx, "busy:doc")
		read, write := refused(b.Get(ctx, "busy:doc").Err()), refused(b.Set(ctx, "busy:doc", "b", 0).Err())
		err := a.Set(ctx, "busy:doc", "a", 0).Err()
		return []any{read, write, b.Get(ctx, "busy:doc").Val()}, err
	})
	r.step("fenced", func() (any, error) {
		a.Get(ctx, "stale:doc")
		b.Get(ctx, "stale:doc")
		err := b.Set(ctx, "stale:doc", "b", 0).Err()
		stale := refused(a.Set(ctx, "stale:doc", "a", 0).Err())
		read := a.Get(ctx, "stale:doc").Val()
		err = errors.Join(err, a.Set(ctx, "stale:doc", read+", a", 0).Err())
		return []any{stale, read, b.Get(ctx, "stale:doc").Val()}, err
	})
	return nil
}

// workers take a connection out of the pool for the turn.
func (g goRedisClient) workers(ctx context.Context, r report, to servers) error {
	client := redis.NewClient(&redis.Options{Addr: to.proxy, Protocol: g.protocol, ReadTimeout: patience, PoolTimeout: patience, PoolSize: 8})
	defer client.Close()
	// The first connection learns whether the server has maintenance notifications. Connections taken
	// with Conn would all write that into the client's options, unsynchronized.
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	r.step("increments", func() (any, error) {
		return together(8, func(i int) error {
			for range 20 {
				if err := goRedisTurn(ctx, client, fmt.Sprintf("go-redis RESP%d %d", g.protocol, i)); err != nil {
					return err
				}
			}
			return nil
		}), nil
	})
	return nil
}

func goRedisTurn(ctx context.Context, client *redis.Client, name string) error {
	conn := client.Conn()
	defer conn.Close()
	document, err := conn.Get(ctx, "ctx:doc").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if document, err = increment(document, name); err != nil {
		return err
	}
	return conn.Set(ctx, "ctx:doc", document, 0).Err()
}

// connection is a connection of the worker's, as Redis lists it.
type connection struct {
	id, name string
	db       int
}

func connections(ctx context.Context, admin *redis.Client) ([]connection, error) {
	list, err := admin.ClientList(ctx).Result()
	if err != nil {
		return nil, err
	}
	var all []connection
	for _, line := range strings.Split(strings.TrimSpace(list), "\n") {
		fields := map[string]string{}
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			fields[key] = value
		}
		if fields["name"] != "worker-1" {
			continue
		}
		db, err := strconv.Atoi(fields["db"])
		if err != nil {
			return nil, err
		}
		all = append(all, connection{fields["id"], fields["name"], db})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no connection of worker-1 in:\n%s", list)
	}
	return all, nil
}

// killConnections kills the worker's connections to Redis and returns their ids.
func killConnections(ctx context.Context, admin *redis.Client) ([]string, error) {
	all, err := connections(ctx, admin)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range all {
		ids = append(ids, c.id)
		if err := admin.ClientKillByFilter(ctx, "ID", c.id).Err(); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// pushWhenBlocked pushes a job as soon as a client waits for one.
func pushWhenBlocked(ctx context.Context, admin *redis.Client) <-chan error {
	pushed := make(chan error, 1)
	go func() {
		for ctx.Err() == nil && !strings.Contains(admin.Info(ctx, "clients").Val(), "blocked_clients:1\r\n") {
			time.Sleep(5 * time.Millisecond)
		}
		pushed <- admin.RPush(ctx, "jobs", "job").Err()
	}()
	return pushed
}

// text is a reply, or nil if there is none.
func text(reply *redis.StringCmd) any {
	if reply.Err() != nil {
		return nil
	}
	return reply.Val()
}

const incrementBy = "return redis.call('INCRBY', KEYS[1], ARGV[1])"

var bigValue = strings.Repeat("0123456789abcdef", 5<<16)

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}
