//go:build integration

package clients

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// rueidisClient is rueidis, with all commands over shared connections.
func rueidisClient(protocol int) func(context.Context, string, servers) (report, error) {
	c := rueidisTasks{protocol}
	return tasks{
		"handshake": c.handshake, "use": c.use, "killed": c.killed, "refusals": c.refusals, "workers": c.workers,
		"turns": c.turns(false), "shared turns": c.turns(true),
		"crowd of 1": c.crowd(1), "crowd of 2": c.crowd(2), "crowd of 8": c.crowd(8),
	}.do
}

type rueidisTasks struct{ protocol int }

func (c rueidisTasks) connect(addr string, edits ...func(*rueidis.ClientOption)) (rueidis.Client, error) {
	options := rueidis.ClientOption{InitAddress: []string{addr}}
	if c.protocol == 2 {
		options.AlwaysRESP2, options.DisableCache = true, true
	}
	for _, edit := range edits {
		edit(&options)
	}
	return rueidis.NewClient(options)
}

func (c rueidisTasks) worker(addr string) (rueidis.Client, error) {
	return c.connect(addr, func(o *rueidis.ClientOption) { o.ClientName, o.SelectDB = "worker-1", 2 })
}

func (c rueidisTasks) handshake(ctx context.Context, r report, to servers) error {
	defaults, err := c.connect(to.proxy)
	if err != nil {
		return err
	}
	defer defaults.Close()
	r.step("defaults", func() (any, error) {
		return defaults.Do(ctx, defaults.B().Echo().Message("defaults").Build()).ToString()
	})
	worker, err := c.worker(to.proxy)
	if err != nil {
		return err
	}
	defer worker.Close()
	r.step("name and database", func() (any, error) {
		return worker.Do(ctx, worker.B().Echo().Message("name and database").Build()).ToString()
	})
	return nil
}

func (c rueidisTasks) use(ctx context.Context, r report, to servers) error {
	client, err := c.worker(to.proxy)
	if err != nil {
		return err
	}
	defer client.Close()
	admin, zero := straight(to.redis, 2), straight(to.redis, 0)
	defer admin.Close()
	defer zero.Close()
	get := func(key string) string {
		value, _ := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
		return value
	}
	set := func(key, value string) error {
		return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
	}

	r.step("connect with defaults", func() (any, error) {
		defaults, err := c.connect(to.proxy)
		if err != nil {
			return nil, err
		}
		defer defaults.Close()
		pong, err := defaults.Do(ctx, defaults.B().Ping().Build()).ToString()
		return pong == "PONG", err
	})
	r.step("connect with name and database", func() (any, error) {
		if err := client.Do(ctx, client.B().Ping().Build()).Error(); err != nil {
			return nil, err
		}
		all, err := connections(ctx, admin)
		if err != nil {
			return nil, err
		}
		return []any{all[0].name, all[0].db}, nil
	})
	r.step("select", func() (any, error) {
		err := set("selected", "in 2")
		return []any{text(admin.Get(ctx, "selected")), text(zero.Get(ctx, "selected"))}, err
	})
	r.step("pipeline", func() (any, error) {
		var commands rueidis.Commands
		for i := range 500 {
			key, value := fmt.Sprintf("pipeline:%d", i), strconv.Itoa(i)
			commands = append(commands, client.B().Set().Key(key).Value(value).Build(), client.B().Get().Key(key).Build())
		}
		right := 0
		for i, reply := range client.DoMulti(ctx, commands...) {
			want := "OK"
			if i%2 == 1 {
				want = strconv.Itoa(i / 2)
			}
			if got, err := reply.ToString(); err == nil && got == want {
				right++
			}
		}
		return right, nil
	})
	r.step("transaction", func() (any, error) {
		replies := client.DoMulti(ctx, client.B().Multi().Build(), client.B().Set().Key("transaction").Value("v").Build(),
			client.B().Incr().Key("transaction:n").Build(), client.B().Get().Key("transaction").Build(), client.B().Exec().Build())
		results, err := replies[4].ToArray()
		if err != nil {
			return nil, err
		}
		ok, err1 := results[0].ToString()
		n, err2 := results[1].AsInt64()
		value, err3 := results[2].ToString()
		return []any{ok == "OK", n, value}, errors.Join(err1, err2, err3)
	})
	r.step("watch", func() (any, error) {
		attempts := 0
		for applied := false; !applied; {
			attempts++
			err := client.Dedicated(func(dedicated rueidis.DedicatedClient) (err error) {
				applied, err = appendUnderWatch(ctx, dedicated, func() {
					if attempts == 1 {
						admin.Set(ctx, "watched", "theirs", 0)
					}
				})
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		return []any{attempts, get("watched")}, nil
	})
	r.step("publish and subscribe", func() (any, error) { return c.publishAndSubscribe(ctx, client, admin) })
	r.step("blocking pop", func() (any, error) {
		pushed := pushWhenBlocked(ctx, admin)
		popped, err := client.Do(ctx, client.B().Blpop().Key("jobs").Timeout(30).Build()).AsStrSlice()
		return popped, errors.Join(err, <-pushed)
	})
	r.step("big value", func() (any, error) {
		err := set("big", bigValue)
		return []any{len(bigValue), get("big") == bigValue}, err
	})
	r.step("binary value", func() (any, error) {
		err := set("binary\r\n\x00\xff", string(everyByte()))
		return hex.EncodeToString([]byte(get("binary\r\n\x00\xff"))), err
	})
	r.step("scan", func() (any, error) {
		pairs := map[string]string{}
		for i := range 500 {
			pairs[fmt.Sprintf("scan:%d", i)] = strconv.Itoa(i)
		}
		for key, err := range rueidis.MSet(client, ctx, pairs) {
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		found := map[string]bool{}
		all := rueidis.NewScanner(func(cursor uint64) (rueidis.ScanEntry, error) {
			return client.Do(ctx, client.B().Scan().Cursor(cursor).Match("scan:*").Count(20).Build()).AsScanEntry()
		})
		for key := range all.Iter() {
			found[key] = true
		}
		return len(found), all.Err()
	})
	r.step("script", func() (any, error) {
		script := rueidis.NewLuaScript(incrementBy)
		var replies []int64
		for n := range 3 {
			if n == 2 {
				client.Do(ctx, client.B().ScriptFlush().Build())
			}
			reply, err := script.Exec(ctx, client, []string{"scripted"}, []string{"1"}).AsInt64()
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
				err := set(key, strconv.Itoa(n))
				if got := get(key); err != nil || got != strconv.Itoa(n) {
					return fmt.Errorf("%s: %q, want %d (%w)", key, got, n, err)
				}
			}
			return nil
		})
		return len(failed), nil
	})
	return nil
}

// appendUnderWatch reports whether its transaction was applied. It calls meanwhile between its read
// and its write.
func appendUnderWatch(ctx context.Context, client rueidis.DedicatedClient, meanwhile func()) (bool, error) {
	if err := client.Do(ctx, client.B().Watch().Key("watched").Build()).Error(); err != nil {
		return false, err
	}
	value, err := client.Do(ctx, client.B().Get().Key("watched").Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return false, err
	}
	meanwhile()
	replies := client.DoMulti(ctx, client.B().Multi().Build(),
		client.B().Set().Key("watched").Value(value+", mine").Build(), client.B().Exec().Build())
	if err := replies[2].Error(); err != nil && !rueidis.IsRedisNil(err) {
		return false, err
	}
	return replies[2].Error() == nil, nil
}

func (c rueidisTasks) publishAndSubscribe(ctx context.Context, client rueidis.Client, admin *redis.Client) (any, error) {
	ctx, unsubscribe := context.WithCancel(ctx)
	var subscribers sync.WaitGroup
	defer subscribers.Wait()
	defer unsubscribe()
	messages := make(chan []string, 2)
	for _, subscribe := range []rueidis.Completed{
		client.B().Subscribe().Channel("news").Build(), client.B().Psubscribe().Pattern("new?:*").Build(),
	} {
		subscribers.Go(func() {
			_ = client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) { messages <- []string{m.Channel, m.Message} })
		})
	}
	for admin.PubSubNumSub(ctx, "news").Val()["news"] == 0 || admin.PubSubNumPat(ctx).Val() == 0 {
		time.Sleep(5 * time.Millisecond)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	var receivers []int64
	var heard [][]string
	for _, message := range [][]string{{"news", "one"}, {"news:more", "two"}} {
		n, err := client.Do(ctx, client.B().Publish().Channel(message[0]).Message(message[1]).Build()).AsInt64()
		if err != nil {
			return nil, err
		}
		receivers = append(receivers, n)
		select {
		case m := <-messages:
			heard = append(heard, m)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return []any{receivers, heard}, nil
}

func (c rueidisTasks) killed(ctx context.Context, r report, to servers) error {
	client, err := c.worker(to.proxy)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := straight(to.redis, 2)
	defer admin.Close()
	ctx, cancel := context.WithCancel(ctx)
	var subscriber sync.WaitGroup
	defer subscriber.Wait()
	defer cancel()
	messages := make(chan string, 1000)
	subscriber.Go(func() {
		// Receive itself subscribes again, but in RESP2 not if only that connection was lost and not the
		// client's other one: so it is straight at Redis, too. A new client does.
		for ctx.Err() == nil {
			c.listen(ctx, to.proxy, messages)
		}
	})
	for admin.PubSubNumSub(ctx, "news").Val()["news"] == 0 && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	if err := client.Do(ctx, client.B().Set().Key("before").Value("1").Build()).Error(); err != nil {
		return err
	}
	before, err := killConnections(ctx, admin)
	if err != nil {
		return err
	}
	refusals := []string{}

	r.step("commands go on", func() (any, error) {
		for ctx.Err() == nil {
			err := client.Do(ctx, client.B().Set().Key("after").Value("1").Build()).Error()
			if err == nil {
				break
			}
			if _, ok := rueidis.IsRedisErr(err); ok {
				refusals = append(refusals, err.Error())
			}
		}
		now, err := connections(ctx, admin)
		if err != nil {
			return nil, err
		}
		value1, err1 := client.Do(ctx, client.B().Get().Key("before").Build()).ToString()
		value2, err2 := client.Do(ctx, client.B().Get().Key("after").Build()).ToString()
		return []any{value1, value2, now[0].db, !slices.Contains(before, now[0].id)}, errors.Join(err1, err2)
	})
	r.step("subscriptions go on", func() (any, error) {
		for {
			admin.Publish(ctx, "news", "after")
			select {
			case message := <-messages:
				return message, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	r.step("refusals in between", func() (any, error) { return refusals, nil })
	return nil
}

// listen hears of news for a second.
func (c rueidisTasks) listen(ctx context.Context, addr string, messages chan<- string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client, err := c.worker(addr)
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, client.Close)
	defer stop()
	_ = client.Receive(ctx, client.B().Subscribe().Channel("news").Build(), func(m rueidis.PubSubMessage) {
		select {
		case messages <- m.Message:
		default:
		}
	})
}

func (c rueidisTasks) refusals(ctx context.Context, r report, to servers) error {
	named := func(name string) (rueidis.Client, error) {
		return c.connect(to.proxy, func(o *rueidis.ClientOption) { o.ClientName, o.ConnWriteTimeout = name, patience })
	}
	holder, err := named("holder")
	if err != nil {
		return err
	}
	defer holder.Close()
	other, err := named("other")
	if err != nil {
		return err
	}
	defer other.Close()
	a, release := holder.Dedicate()
	defer release()
	b, release := other.Dedicate()
	defer release()
	get := func(c rueidis.DedicatedClient, key string) (string, error) {
		value, err := c.Do(ctx, c.B().Get().Key(key).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			err = nil
		}
		return value, err
	}
	set := func(c rueidis.DedicatedClient, key, value string) error {
		return c.Do(ctx, c.B().Set().Key(key).Value(value).Build()).Error()
	}

	r.step("locked", func() (any, error) {
		_, err := get(a, "busy:doc")
		_, lockedRead := get(b, "busy:doc")
		lockedWrite := set(b, "busy:doc", "b")
		err = errors.Join(err, set(a, "busy:doc", "a"))
		after, err1 := get(b, "busy:doc")
		return []any{refused(lockedRead), refused(lockedWrite), after}, errors.Join(err, err1)
	})
	r.step("fenced", func() (any, error) {
		_, err := get(a, "stale:doc")
		_, err1 := get(b, "stale:doc")
		err2 := set(b, "stale:doc", "b")
		stale := set(a, "stale:doc", "a")
		read, err3 := get(a, "stale:doc")
		err4 := set(a, "stale:doc", read+", a")
		after, err5 := get(b, "stale:doc")
		return []any{refused(stale), read, after}, errors.Join(err, err1, err2, err3, err4, err5)
	})
	return nil
}

// workers have a connection to themselves for the turn.
func (c rueidisTasks) workers(ctx context.Context, r report, to servers) error {
	client, err := c.connect(to.proxy, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = patience })
	if err != nil {
		return err
	}
	defer client.Close()
	r.step("increments", func() (any, error) {
		return together(8, func(i int) error {
			for range 20 {
				err := client.Dedicated(func(dedicated rueidis.DedicatedClient) error {
					return rueidisTurn(ctx, dedicated, fmt.Sprintf("rueidis RESP%d %d", c.protocol, i))
				})
				if err != nil {
					return err
				}
			}
			return nil
		}), nil
	})
	return nil
}

func rueidisTurn(ctx context.Context, client rueidis.DedicatedClient, name string) error {
	document, err := client.Do(ctx, client.B().Get().Key("ctx:doc").Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if document, err = increment(document, name); err != nil {
		return err
	}
	return client.Do(ctx, client.B().Set().Key("ctx:doc").Value(document).Build()).Error()
}

// rueidis asks the server to say when a value that it keeps in its own memory has changed.
func TestTheCacheInRueidisHearsOfEveryChange(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := startProxy(t, server)
	client, err := rueidisTasks{3}.connect(proxy.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	get := func() (value string, cached bool) {
		t.Helper()
		reply := client.DoCache(t.Context(), client.B().Get().Key("free").Cache(), time.Hour)
		value, err := reply.ToString()
		if err != nil {
			t.Fatal(err)
		}
		return value, reply.IsCacheHit()
	}
	straight := server.Client()
	straight.Set(t.Context(), "free", "1", 0)
	get()
	if value, cached := get(); value != "1" || !cached {
		t.Errorf("a second read: %q, cached %v; want it out of the cache", value, cached)
	}
	straight.Set(t.Context(), "free", "2", 0)
	harness.Eventually(t, 0, func() bool { value, _ := get(); return value == "2" }, "the cache has heard of the change")
}
