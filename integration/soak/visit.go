//go:build integration

package soak

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// visit is one way to use the proxy, from a new connection to the moment before its end.
type visit struct {
	name string
	do   func(g *guest) error
}

var visits = append([]visit{
	{"one by one", oneByOne},
	{"pipeline", pipeline},
	{"transaction", transaction},
	{"watch", watch},
	{"pub/sub", pubSub},
	{"blocking", blocking},
	{"handshake", handshake},
	{"tracking", tracking},
	{"script", script},
	{"leaves blocked", leavesBlocked},
	{"leaves in a request", leavesInRequest},
	{"leaves unread", leavesUnread},
	{"talks nonsense", nonsense},
}, guardedVisits...)

// guardedVisits are those that meet guests of other houses.
var guardedVisits = []visit{
	{"guarded", guarded},
	{"new sessions", newSessions},
	{"atomic updates", atomicUpdates},
	{"turns", turns},
	{"grants", grants},
	{"once", once},
	{"leaves holding", leavesHolding},
	{"leaves waiting", leavesWaiting},
}

// perform is a whole visit. It is no error to be told of a fault.
func (v *visit) perform(h *house, r *rand.Rand) error {
	came := h.trouble.now()
	err := v.pay(h, r)
	switch {
	case err == nil:
		return nil
	case h.trouble.explains(err, came):
		time.Sleep(10 * time.Millisecond) // as a client does before it tries again
		return nil
	}
	return fmt.Errorf("%s, %s: %w", h.name, v.name, err)
}

func (v *visit) pay(h *house, r *rand.Rand) error {
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
	return err
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
		key := g.counted()
		_, err := g.update(key, "INCR", key)
		return err
	})
}

// turns add one to what they have read, which goes wrong if somebody else does so between.
func turns(g *guest) error {
	return g.stay(1+g.IntN(50), func() error {
		key := fmt.Sprint("ctx:turn:", g.IntN(6))
		raw, err := g.ask("GET", key)
		if err != nil || isTaken(raw) {
			return err
		}
		more := []string{"SET", key, strconv.Itoa(number(raw) + 1)}
		if g.IntN(4) == 0 {
			if err := g.talk([]string{"MULTI"}, more); err != nil {
				return err
			}
			more = []string{"EXEC"}
		}
		_, err = g.update(key, more...)
		return err
	})
}

// grants are acquired, handed on, and given back or left to their end.
func grants(g *guest) error {
	friend, err := g.bring()
	if err != nil {
		return err
	}
	return g.stay(1+g.IntN(20), func() error {
		key := g.counted()
		raw, err := g.ask("FENCE.ACQUIRE", key, "TTL", "1000", "WAIT", "300")
		if err != nil || isTaken(raw) {
			return err
		}
		grant := strconv.Itoa(number(raw))
		if _, err := friend.update(key, "FENCE.DO", grant, "INCR", key); err != nil {
			return err
		}
		if err := friend.talk([]string{"FENCE.RENEW", key, grant, "TTL", "500"}); err != nil || g.IntN(10) == 0 {
			return err
		}
		return g.talk([]string{"FENCE.RELEASE", key, grant})
	})
}

// once says some updates again, which are applied only the first time.
func once(g *guest) error {
	friend, err := g.bring()
	if err != nil {
		return err
	}
	return g.stay(1+g.IntN(20), func() error {
		key, said := g.counted(), time.Now()
		command := []string{"FENCE.ONCE", fmt.Sprintf("%s-%d", g.house.name, g.house.sessions.Add(1)), "2000", "INCR", key}
		reply, err := g.update(key, command...)
		if err != nil || isTaken(reply) || g.IntN(3) > 0 {
			return err
		}
		again, err := friend.ask(command...)
		if time.Since(said) > 2*time.Second { // it may have been forgotten
			g.house.ledger.enter(key, unknown)
			return err
		}
		if err == nil && !bytes.Equal(again, reply) {
			return fmt.Errorf("an update that was answered %q is answered %q when it is said again", reply, again)
		}
		return err
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
