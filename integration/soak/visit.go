//go:build integration

package soak

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// visit is one way to use the proxy, from a new connection to the moment before its end.
type visit struct {
	name string
	do   func(g *guest) error
}

var visits = []visit{
	{"one by one", oneByOne},
	{"pipeline", pipeline},
	{"transaction", transaction},
	{"watch", watch},
	{"pub/sub", pubSub},
	{"blocking", blocking},
	{"handshake", handshake},
	{"tracking", tracking},
	{"script", script},
	{"guarded", guarded},
	{"new sessions", newSessions},
	{"atomic updates", atomicUpdates},
	{"leaves holding", leavesHolding},
	{"leaves waiting", leavesWaiting},
	{"leaves blocked", leavesBlocked},
	{"leaves in a request", leavesInRequest},
	{"leaves unread", leavesUnread},
	{"talks nonsense", nonsense},
}

// perform is a whole visit.
func (v *visit) perform(h *house, r *rand.Rand) error {
	g, err := h.welcome(r)
	if err != nil {
		return err
	}
	err = v.do(g)
	for _, one := range append(g.friends, g) {
		if err == nil {
			err = one.leave()
		}
		_ = one.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	return nil
}

func oneByOne(g *guest) error {
	return g.stay(1+g.IntN(400), func() error {
		if g.IntN(2) == 0 {
			return g.talk(g.set(g.plain()))
		}
		return g.talk([]string{"GET", g.plain()})
	})
}

func pipeline(g *guest) error {
	return g.stay(1+g.IntN(50), func() error {
		commands := make([][]string, 1+g.IntN(100))
		for i := range commands {
			switch list := fmt.Sprint("list:", g.IntN(10)); g.IntN(6) {
			case 0, 1:
				commands[i] = g.set(g.plain())
			case 2, 3:
				commands[i] = []string{"GET", g.plain()}
			case 4:
				commands[i] = []string{"LPUSH", list, "x"}
			default:
				commands[i] = []string{"LTRIM", list, "0", "50"}
			}
		}
		return g.talk(commands...)
	})
}

func transaction(g *guest) error {
	return g.stay(1+g.IntN(50), func() error {
		end := []string{"EXEC"}
		if g.IntN(4) == 0 {
			end[0] = "DISCARD"
		}
		return g.talk([]string{"MULTI"}, g.set(g.plain()), []string{"INCR", "counter"}, []string{"GET", g.plain()}, end)
	})
}

// watch sometimes ends with its watch or transaction open.
func watch(g *guest) error {
	key := g.plain()
	for _, command := range [][]string{{"WATCH", key}, {"GET", key}, {"MULTI"}, g.set(key), {"EXEC"}} {
		if err := g.talk(command); err != nil || g.IntN(8) == 0 {
			return err
		}
	}
	return nil
}

func pubSub(g *guest) error {
	publisher, err := g.bring()
	if err != nil {
		return err
	}
	channel := fmt.Sprint("channel:", g.house.sessions.Add(1))
	if err := g.talk([]string{"SUBSCRIBE", channel}, []string{"PSUBSCRIBE", channel + ":*"}); err != nil {
		return err
	}
	err = g.stay(1+g.IntN(100), func() error {
		if err := publisher.talk([]string{"PUBLISH", channel, g.value()}, []string{"PUBLISH", channel + ":x", "short"}); err != nil {
			return err
		}
		return g.hear(2)
	})
	if err != nil || g.IntN(2) == 0 {
		return err
	}
	return g.talk([]string{"UNSUBSCRIBE", channel}, []string{"PUNSUBSCRIBE", channel + ":*"})
}

func blocking(g *guest) error {
	pusher, err := g.bring()
	if err != nil {
		return err
	}
	queue := fmt.Sprint("queue:", g.house.sessions.Add(1))
	return g.stay(1+g.IntN(30), func() error {
		if err := g.send([]string{"BLPOP", queue, "0"}); err != nil {
			return err
		}
		if err := pusher.talk([]string{"RPUSH", queue, g.value()}); err != nil {
			return err
		}
		return g.hear(1)
	})
}

func handshake(g *guest) error {
	return g.talk([]string{"HELLO", "3", "SETNAME", "guest"}, []string{"CLIENT", "ID"}, []string{"SELECT", "1"},
		g.set(g.plain()), []string{"GET", g.plain()}, []string{"COMMAND", "COUNT"}, []string{"RESET"}, []string{"GET", g.plain()})
}

func tracking(g *guest) error {
	key := fmt.Sprint("tracked:", g.house.sessions.Add(1))
	writer, err := g.bring()
	if err != nil {
		return err
	}
	if err := g.talk([]string{"HELLO", "3"}, []string{"CLIENT", "TRACKING", "ON"}); err != nil {
		return err
	}
	return g.stay(1+g.IntN(30), func() error {
		if err := g.talk([]string{"GET", key}); err != nil {
			return err
		}
		if err := writer.talk(g.set(key)); err != nil {
			return err
		}
		return g.hear(1) // the invalidation
	})
}

func script(g *guest) error {
	return g.stay(1+g.IntN(100), func() error {
		return g.talk([]string{"EVAL", "return redis.call('GET', KEYS[1])", "1", g.plain()})
	})
}

// guarded reads and writes what many want.
func guarded(g *guest) error {
	return g.stay(1+g.IntN(100), func() error {
		key := g.wanted()
		if err := g.talk([]string{"GET", key}); err != nil {
			return err
		}
		return g.talk(g.set(key))
	})
}

func newSessions(g *guest) error {
	return g.stay(1+g.IntN(100), func() error {
		key := g.fresh()
		if g.IntN(4) == 0 {
			return g.talk(g.set(key)) // blind
		}
		return g.talk([]string{"GET", key}, g.set(key))
	})
}

func atomicUpdates(g *guest) error {
	return g.stay(1+g.IntN(100), func() error {
		return g.talk([]string{"INCR", fmt.Sprint("ctx:count:", g.IntN(6))})
	})
}

func leavesHolding(g *guest) error {
	for range 1 + g.IntN(4) {
		if err := g.talk([]string{"GET", g.fresh()}); err != nil {
			return err
		}
	}
	if err := g.talk([]string{"GET", g.wanted()}); err != nil {
		return err
	}
	g.vanish()
	return nil
}

// leavesWaiting does so in line for what a holder keeps, or as its turn comes.
func leavesWaiting(g *guest) error {
	holder, err := g.bring()
	if err != nil {
		return err
	}
	key := g.fresh()
	if err := holder.talk([]string{"GET", key}); err != nil {
		return err
	}
	if err := g.send([]string{"GET", key}, []string{"GET", g.plain()}); err != nil {
		return err
	}
	if err := holder.talk([]string{"PING"}); err != nil {
		return err
	}
	if g.IntN(2) == 0 {
		err = holder.talk(g.set(key))
	}
	g.vanish()
	return err
}

func leavesBlocked(g *guest) error {
	err := g.talk([]string{"PING"})
	if err == nil {
		err = g.send([]string{"BLPOP", "nobody:pushes", "0"})
	}
	g.vanish()
	return err
}

func leavesInRequest(g *guest) error {
	command := harness.Encode(g.set([]string{g.plain(), g.wanted()}[g.IntN(2)])...)
	err := g.write(command[:1+g.IntN(len(command)-1)])
	if g.IntN(2) == 0 {
		g.vanish()
	}
	g.gone = true
	return err
}

func leavesUnread(g *guest) error {
	key := "large"
	if err := g.talk([]string{"SET", key, strings.Repeat("v", 100<<10)}); err != nil {
		return err
	}
	err := g.write(strings.Repeat(harness.Encode("GET", key), 1+g.IntN(200)))
	if err == nil && g.IntN(2) == 0 {
		err = g.hear(1)
	}
	g.vanish()
	return err
}

// nonsense is answered by an error and the end of the connection.
func nonsense(g *guest) error {
	if err := g.write([]string{"*1\r\n$-5\r\n", "*x\r\n", "*1\r\n:5\r\n"}[g.IntN(3)]); err != nil {
		return err
	}
	if raw, err := g.Read(); err != nil {
		return err
	} else if raw[0] != '-' {
		return fmt.Errorf("got %q, want an error", raw)
	}
	if raw, err := g.Read(); err == nil {
		return fmt.Errorf("got %q, want the end", raw)
	}
	g.vanish()
	return nil
}
