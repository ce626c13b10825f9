package provider

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"

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

// redlockKey says what a node is asked about: an acquisition, by its id, of a session.
type redlockKey struct{ session, id string }

// redlockNode is one of the N. It is safe for concurrent use.
type redlockNode interface {
	// ask carries a script out. The answer is the script's: a word, and what belongs to it. An error may mean that the script was, or
	// will be, carried out all the same, unless it is an errNotSent.
	ask(ctx context.Context, s *redlockScript, key redlockKey, args ...any) ([]string, error)
	// listen says whether releases of the session are of interest. What is heard may come late, or not at all.
	listen(session string, on bool)
	close()
}

// errNotSent is in the errors of what a node was never asked.
var errNotSent = errors.New("nothing was sent")

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
	if o.TLSConfig != nil {
		if err := useFiles(o.TLSConfig, s.TLSCA, s.TLSCert, s.TLSKey); err != nil {
			return nil, err
		}
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

func (n *redlockRedis) ask(ctx context.Context, s *redlockScript, key redlockKey, args ...any) ([]string, error) {
	if s == redlockRelease && args[1] != "" {
		args = append([]any{args[0], n.ears.prefix + key.session}, args[2:]...)
	}
	keys := []string{n.prefix + "lock:" + key.session, n.prefix + "grant:" + key.session, n.prefix + "memory", n.prefix + "dead:" + key.id}
	answer, err := s.lua.Run(ctx, n.client, keys, args...).StringSlice()
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) {
		err = fmt.Errorf("%w: %w", errNotSent, err)
	}
	return answer, err
}

func (n *redlockRedis) listen(session string, on bool) { n.ears.want(session, on) }

func (n *redlockRedis) close() {
	n.ears.close()
	_ = n.client.Close()
}
