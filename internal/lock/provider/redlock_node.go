package provider

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed redlock/*.lua
var redlockLua embed.FS

// redlockScript is something that a node can be asked.
type redlockScript struct {
	name string
	lua  *redis.Script
}

func newRedlockScript(name string) *redlockScript {
	var source string
	for _, part := range []string{"prelude", name} {
		text, err := redlockLua.ReadFile("redlock/" + part + ".lua")
		if err != nil {
			panic(err) // it is not in this binary
		}
		source += string(text)
	}
	return &redlockScript{name: name, lua: redis.NewScript(source)}
}

var (
	redlockCheck   = newRedlockScript("check")
	redlockTake    = newRedlockScript("take")
	redlockRaise   = newRedlockScript("raise")
	redlockRenew   = newRedlockScript("renew")
	redlockRelease = newRedlockScript("release")
)

// redlockNode is one of the N. It is safe for concurrent use.
type redlockNode interface {
	// ask carries a script out. The answer is the script's: a word, and what belongs to it.
	ask(ctx context.Context, s *redlockScript, session string, args ...any) ([]string, error)
	// listen says whether releases of the session are of interest. What is heard may come late, or not at all.
	listen(session string, on bool)
	close()
}

// redlockRedis is a node that is a Redis.
type redlockRedis struct {
	prefix string
	client *redis.Client
	ears   *redlockEars
}

func newRedlockRedis(url string, s *RedlockSettings, heard func(session, id string)) (*redlockRedis, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	if o.Username == "" && o.Password == "" {
		o.Username, o.Password = s.Username, s.Password
	}
	o.ClientName, o.Protocol, o.DisableIdentity = "fence-proxy", 2, true
	// A message that is sent once more comes late, and a node that takes long is one that is down.
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = s.NodeTimeout, s.NodeTimeout, s.NodeTimeout, s.NodeTimeout
	o.ContextTimeoutEnabled = true
	o.ReadBufferSize, o.WriteBufferSize = 4096, 4096
	client := redis.NewClient(o)
	return &redlockRedis{prefix: s.Prefix, client: client, ears: newRedlockEars(client, s.Prefix+"wake:", heard)}, nil
}

func (n *redlockRedis) ask(ctx context.Context, s *redlockScript, session string, args ...any) ([]string, error) {
	keys := []string{n.prefix + "lock:" + session, n.prefix + "grant:" + session, n.prefix + "memory"}
	if s == redlockRelease && args[1] != "" {
		args = []any{args[0], n.prefix + "wake:" + session}
	}
	return s.lua.Run(ctx, n.client, keys, args...).StringSlice()
}

func (n *redlockRedis) listen(session string, on bool) { n.ears.want(session, on) }

func (n *redlockRedis) close() {
	n.ears.close()
	_ = n.client.Close()
}

// redlockMember is a node under its name, with a log of how it is.
type redlockMember struct {
	redlockNode
	name string
	log  *slog.Logger

	mu    sync.Mutex
	state string // "" while it answers, or what ails it
}

// outError is the answer of a node that sits out.
type outError struct{ left time.Duration }

func (e *outError) Error() string {
	return fmt.Sprintf("has lost what it knew, or is new, and takes part in %v", e.left.Round(time.Millisecond))
}

// ask is the node's, with "out" as an error, and its name before what went wrong.
func (m *redlockMember) ask(ctx context.Context, s *redlockScript, session string, args ...any) ([]string, error) {
	answer, err := m.redlockNode.ask(ctx, s, session, args...)
	if err == nil && len(answer) == 0 {
		err = fmt.Errorf("script %s answers nothing", s.name)
	}
	if err == nil && answer[0] == "out" {
		left, _ := time.ParseDuration(answer[1] + "ms")
		err = &outError{left}
	}
	if ctx.Err() != nil && err != nil {
		err = errors.New("no answer in time")
	}
	if !errors.Is(ctx.Err(), context.Canceled) { // it is not given up because of Close
		m.note(err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return answer, nil
}

// note logs when a node stops to answer, or to take part, and when it is back.
func (m *redlockMember) note(err error) {
	var state string
	switch err.(type) { //nolint:errorlint // it is made above
	case nil:
	case *outError:
		state = "sits out"
	default:
		state = "does not answer"
	}
	m.mu.Lock()
	changed := state != m.state
	m.state = state
	m.mu.Unlock()
	switch {
	case changed && state == "":
		m.log.Info("lock node takes part", "node", m.name)
	case changed:
		m.log.Warn("lock node "+state, "node", m.name, "error", err)
	}
}
