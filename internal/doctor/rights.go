package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

const (
	// scratchRule is no rule's name: rules are called otherwise.
	scratchRule = "(doctor)"
	// scratchLife is how long a scratch record stays that could not be taken away.
	scratchLife = 5 * time.Second
)

// rights tries out what the proxy does, as the user of upstream.url: begins, looks, watches, is woken, and releases, on a scratch
// record. If that is refused, the rights that are missing are named.
func rights(ctx context.Context, e *exam) {
	user := e.user()
	if err := e.tryOut(ctx); err != nil {
		remedy := "docs/acl.md has the rights that the proxy's user needs"
		if missing := e.missing(ctx, user); len(missing) > 0 {
			remedy = "ACL SETUSER " + user + " " + strings.Join(missing, " ") + "; " + remedy
		}
		e.fail(remedy, "user %s may not do what the fence needs: %s", user, reason(err))
		return
	}
	e.ok("user %s may do all that the fence needs: tried on a scratch record", user)
}

// user is whom the proxy logs in as.
func (e *exam) user() string { return cmp.Or(e.Redis.Options().Username, "default") }

func (e *exam) tryOut(ctx context.Context) error {
	store, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Allowed(ctx); err != nil {
		return err
	}
	t := &trial{
		exam: e, store: store, id: "doctor" + strings.ToLower(rand.Text()),
		record: tokenstore.NewRecord(e.Area, scratchRule, strings.ToLower(rand.Text())),
	}
	defer e.Redis.Del(context.WithoutCancel(ctx), append(t.record.Keys(), t.record.WakeList(t.second()))...)
	for _, step := range []func(context.Context) error{t.transacts, t.looks, t.hears, t.inspects} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// trial does on a scratch record what proxies do.
type trial struct {
	*exam
	store  *tokenstore.Store
	id     string // of the proxy that it plays
	record *tokenstore.Record
}

func (t *trial) claim(who string) *tokenstore.Claim {
	return tokenstore.NewClaim(t.id+":"+who, tokenstore.Identity{Client: "fence-proxy doctor"}, time.Second, scratchLife)
}

// second is the waiter that the session is handed to.
func (t *trial) second() string { return tokenstore.Parks(t.id + ".1") }

// transacts says what goes with a transaction, and what blocks.
func (t *trial) transacts(ctx context.Context) error {
	conn := t.Redis.Conn()
	defer conn.Close()
	for _, call := range [][]any{{"COMMAND", "INFO", "GET"}, {"MULTI"}, {"DISCARD"}, {"UNWATCH"}, {"BLPOP", t.record.Keys()[1], "0.01"}} {
		if err := conn.Do(ctx, call...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("%v: %w", call[0], err)
		}
	}
	return nil
}

func (t *trial) looks(ctx context.Context) error {
	_, err := t.store.Look(ctx, t.record, t.claim("a"))
	return err
}

// hears tries whether wake-ups arrive, and, where the store grants, hands a session from one to another.
func (t *trial) hears(ctx context.Context) error {
	heard := t.Redis.Subscribe(ctx, tokenstore.WakeChannel(t.id))
	defer heard.Close()
	if _, err := heard.Receive(ctx); err != nil {
		return fmt.Errorf("subscribe to wake-ups: %w", err)
	}
	if err := t.Redis.Publish(ctx, tokenstore.WakeChannel(t.id), "x").Err(); err != nil {
		return fmt.Errorf("publish wake-ups: %w", err)
	}
	if _, err := heard.ReceiveMessage(ctx); err != nil {
		return fmt.Errorf("hear wake-ups: %w", err)
	}
	if t.Config.Lock.Outside() {
		return nil
	}
	return t.handsOver(ctx)
}

func (t *trial) handsOver(ctx context.Context) error {
	a, b, c := t.claim("a"), t.claim("b"), t.claim("c")
	held, err := t.store.Begin(ctx, t.record, a, "", tokenstore.Basis{})
	if err != nil {
		return err
	}
	if _, err := t.store.Renew(ctx, t.record, a, held.Grant, false); err != nil {
		return err
	}
	second, third := t.second(), t.id+".2"
	for waiter, claim := range map[string]*tokenstore.Claim{second: b, third: c} {
		if _, err := t.store.Begin(ctx, t.record, claim, waiter, tokenstore.Basis{}); err != nil {
			return err
		}
	}
	if err := t.store.Leave(ctx, t.record, c, third); err != nil {
		return err
	}
	if err := t.store.Release(ctx, t.record, a, held.Grant, true); err != nil {
		return err
	}
	return t.store.Leave(ctx, t.record, b, second)
}

func (t *trial) inspects(ctx context.Context) error {
	_, err := t.store.Inspect(ctx, t.record, 1)
	return err
}

// needed are the calls that a user has to be allowed, each with the right that allows it. docs/acl.md has the rights, and a test that
// they are these.
var needed = []struct{ right, call string }{
	{"+eval", "EVAL x 1 k"},
	{"+evalsha", "EVALSHA x 1 k"},
	{"+script|load", "SCRIPT LOAD x"},
	{"+watch", "WATCH k"},
	{"+unwatch", "UNWATCH"},
	{"+multi", "MULTI"},
	{"+exec", "EXEC"},
	{"+discard", "DISCARD"},
	{"+get", "GET k"},
	{"+set", "SET k v"},
	{"+del", "DEL k"},
	{"+exists", "EXISTS k"},
	{"+pexpire", "PEXPIRE k 1"},
	{"+pttl", "PTTL k"},
	{"+zadd", "ZADD k 1 m"},
	{"+zrem", "ZREM k m"},
	{"+zrange", "ZRANGE k 0 0"},
	{"+zrank", "ZRANK k m"},
	{"+zcard", "ZCARD k"},
	{"+blpop", "BLPOP k 1"},
	{"+rpush", "RPUSH k v"},
	{"+time", "TIME"},
	{"+command", "COMMAND"},
	{"+client|setname", "CLIENT SETNAME x"},
	{"+publish", "PUBLISH c m"},
	{"+pubsub|numsub", "PUBSUB NUMSUB c"},
	{"+subscribe", "SUBSCRIBE c"},
}

// missing are the rights that a user lacks, as far as Redis tells (7.0 or later, with the right to ask).
func (e *exam) missing(ctx context.Context, user string) (rights []string) {
	r := tokenstore.NewRecord(e.Area, scratchRule, "x")
	key, channel := r.Keys()[0], tokenstore.WakeChannel("x")
	add := func(right string) {
		if !slices.Contains(rights, right) {
			rights = append(rights, right)
		}
	}
	o := *e.asks().Options()
	o.ClientName = "" // which may be what is refused
	client := redis.NewClient(&o)
	defer client.Close()
	for _, n := range needed {
		args := []any{"ACL", "DRYRUN", user}
		for _, word := range strings.Fields(n.call) {
			switch word {
			case "k":
				word = key
			case "c":
				word = channel
			}
			args = append(args, word)
		}
		said, err := client.Do(ctx, args...).Text()
		if err != nil {
			return nil // before 7.0, or not allowed to ask
		}
		switch {
		case said == "OK":
		case strings.Contains(said, "to run the"), strings.Contains(said, "no permissions to run"):
			add(n.right)
		case strings.Contains(said, "channel"):
			add("&" + tokenstore.Prefix + "wake:*")
		case strings.Contains(said, "key"):
			add("~" + tokenstore.Prefix + "*")
		}
	}
	return rights
}
