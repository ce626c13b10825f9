package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

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
	user, err := e.Redis.Do(ctx, "ACL", "WHOAMI").Text()
	if err != nil {
		user = "of upstream.url"
	}
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

func (e *exam) tryOut(ctx context.Context) error {
	store, err := e.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Allowed(ctx); err != nil {
		return err
	}
	r := tokenstore.NewRecord(e.Area, scratchRule, strings.ToLower(rand.Text()))
	claim := tokenstore.NewClaim("doctor", tokenstore.Identity{Client: "fence-proxy doctor"}, time.Second, scratchLife)
	defer e.Redis.Del(context.WithoutCancel(ctx), r.Keys()...)
	if _, err := store.Look(ctx, r, claim); err != nil {
		return err
	}
	if !e.Config.Lock.Outside() {
		got, err := store.Begin(ctx, r, claim, "", tokenstore.Basis{})
		if err != nil {
			return err
		}
		if _, err := store.Renew(ctx, r, claim, got.Grant, false); err != nil {
			return err
		}
		if err := store.Release(ctx, r, claim, got.Grant, true); err != nil {
			return err
		}
	}
	if _, err := store.Inspect(ctx, r, 1); err != nil {
		return err
	}
	return e.hearsItself(ctx)
}

// hearsItself tries whether a wake-up arrives.
func (e *exam) hearsItself(ctx context.Context) error {
	channel := tokenstore.WakeChannel("doctor-" + strings.ToLower(rand.Text()))
	heard := e.Redis.Subscribe(ctx, channel)
	defer heard.Close()
	if _, err := heard.Receive(ctx); err != nil {
		return fmt.Errorf("subscribe to wake-ups: %w", err)
	}
	if err := e.Redis.Publish(ctx, channel, "x").Err(); err != nil {
		return fmt.Errorf("publish wake-ups: %w", err)
	}
	if _, err := heard.ReceiveMessage(ctx); err != nil {
		return fmt.Errorf("hear wake-ups: %w", err)
	}
	return nil
}

// needed are the calls that a user has to be allowed, each with the right that allows it. docs/acl.md has the rights, and a test that
// they are these.
var needed = []struct{ right, call string }{
	{"+eval", "EVAL x 1 k"}, {"+evalsha", "EVALSHA x 1 k"}, {"+script|load", "SCRIPT LOAD x"},
	{"+watch", "WATCH k"}, {"+unwatch", "UNWATCH"}, {"+multi", "MULTI"}, {"+exec", "EXEC"}, {"+discard", "DISCARD"},
	{"+get", "GET k"}, {"+set", "SET k v"}, {"+del", "DEL k"}, {"+exists", "EXISTS k"}, {"+pexpire", "PEXPIRE k 1"}, {"+pttl", "PTTL k"},
	{"+zadd", "ZADD k 1 m"}, {"+zrem", "ZREM k m"}, {"+zrange", "ZRANGE k 0 0"}, {"+zrank", "ZRANK k m"}, {"+zcard", "ZCARD k"},
	{"+blpop", "BLPOP k 1"}, {"+rpush", "RPUSH k v"}, {"+time", "TIME"}, {"+command", "COMMAND"},
	{"+publish", "PUBLISH c m"}, {"+pubsub|numsub", "PUBSUB NUMSUB c"}, {"+subscribe", "SUBSCRIBE c"},
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
		said, err := e.Redis.Do(ctx, args...).Text()
		switch {
		case err != nil && !refused(err):
			return rights
		case err != nil && !strings.Contains(err.Error(), "has no permissions"):
			return rights // before 7.0, or not allowed to ask
		case err != nil:
			said = err.Error()
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
