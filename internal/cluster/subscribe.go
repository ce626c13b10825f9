package cluster

import (
	"bytes"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// everywhere are the channels that the client hears of at every primary. They are the router's.
type everywhere struct {
	channels map[string]bool
	heard    map[*conn]bool // where they are subscribed to, besides at home
}

func (e *everywhere) clear() { e.channels, e.heard = nil, nil }

// subscribes reports whether a command changes subscriptions.
func subscribes(name string) bool {
	switch name {
	case "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe":
		return true
	}
	return false
}

// subscribe carries out a command that changes subscriptions: at the node that gets what has no keys, or, for a shard's channel, at
// that of its slot.
func (f *front) subscribe(cmd *command.Command, r *request) error {
	e := entry{kind: confirms, slot: int32(f.slotOf(cmd, r.args)), word: cmd.Name, left: len(r.args) - 1, raw: bytes.Clone(r.raw)}
	e.watches = e.slot >= 0
	if cmd.Name == "sunsubscribe" && e.slot == noKeys {
		done := false
		for _, c := range f.main {
			f.mu.Lock()
			shards := c.subs.shards
			f.mu.Unlock()
			if shards > 0 {
				done = true
				all := e
				all.c = c
				f.put(&all)
			}
		}
		if done {
			return nil
		}
	}
	c, again := f.connOf(int(e.slot))
	if c == nil && f.over() {
		return f.why()
	}
	e.c, e.again = c, again
	if e.left == 0 && cmd.Name != "unsubscribe" && cmd.Name != "punsubscribe" && cmd.Name != "sunsubscribe" {
		e.kind = passed // an error
	}
	f.put(&e)
	f.note(cmd, r.args[1:])
	return f.hearEverywhere(c)
}

// note takes in which channels are to be heard at every primary.
func (f *front) note(cmd *command.Command, channels [][]byte) {
	if f.c.options.Everywhere == nil {
		return
	}
	if cmd.Name == "unsubscribe" && len(channels) == 0 {
		for channel := range f.channels {
			channels = append(channels, []byte(channel))
		}
	}
	for _, channel := range channels {
		switch {
		case !f.c.options.Everywhere(channel):
		case cmd.Name == "subscribe":
			if f.channels == nil {
				f.channels, f.heard = map[string]bool{}, map[*conn]bool{}
			}
			f.channels[string(channel)] = true
			clear(f.heard)
		case cmd.Name == "unsubscribe" && f.channels[string(channel)]:
			delete(f.channels, string(channel))
			for c := range f.heard {
				f.put(&entry{kind: confirms, quiet: true, slot: elsewhere, c: c, word: "unsubscribe", left: 1, raw: resp.AppendCommand(nil, []byte("UNSUBSCRIBE"), channel)})
			}
		}
	}
}

// hearEverywhere subscribes at the primaries where that is not done yet.
func (f *front) hearEverywhere(home *conn) error {
	if len(f.channels) == 0 {
		f.partial.Store(false)
		return nil
	}
	request := [][]byte{[]byte("SUBSCRIBE")}
	for channel := range f.channels {
		request = append(request, []byte(channel))
	}
	partial := false
	for _, n := range f.topology.primaries {
		if home != nil && n == home.n || home == nil && n == f.home {
			continue
		}
		c, err := f.at(n)
		if err != nil {
			partial = true
			continue
		}
		if f.heard[c] {
			continue
		}
		f.heard[c] = true
		f.put(&entry{
			kind: confirms, quiet: true, slot: elsewhere, c: c, word: "subscribe", left: len(f.channels),
			raw: resp.AppendCommand(nil, request...),
		})
	}
	f.partial.Store(partial)
	return nil
}

// subscribeEverywhere is for a topology that is another.
func (f *front) subscribeEverywhere() error {
	for c := range f.heard {
		if c.lost.Load() {
			delete(f.heard, c)
		}
	}
	if err := f.hearEverywhere(nil); err != nil {
		return err
	}
	return f.ship()
}

// heeds reports whether the client speaks RESP2 and has subscriptions: Redis refuses it most commands then.
func (f *front) heeds() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hearing {
		for _, c := range f.conns {
			if c.subs.any() {
				return true
			}
		}
	}
	return false
}

// toListener takes a command of a client in RESP2 that has subscriptions to where it has them: Redis knows what it may say.
func (f *front) toListener(cmd *command.Command, r *request) error {
	if subscribes(cmd.Name) {
		return f.subscribe(cmd, r)
	}
	if cmd.Name == "reset" {
		return f.reset(r)
	}
	if cmd.Name == "quit" {
		f.say(okReply, true)
		return nil
	}
	at := f.main[f.home]
	f.mu.Lock()
	if at == nil || !at.subs.any() {
		for _, c := range f.main {
			if c.subs.any() {
				at = c
			}
		}
	}
	f.mu.Unlock()
	if at == nil {
		return f.toSlot(cmd, entry{kind: passed, slot: noKeys, raw: r.raw, in: r.in})
	}
	if f.slotOf(cmd, r.args) == noKeys {
		f.put(&entry{kind: passed, slot: elsewhere, c: at, raw: r.raw, in: r.in})
		return nil
	}
	// Redis would look at its slot first. Its words are those that it has for another command.
	name := []byte("'" + strings.ReplaceAll(cmd.Name, "|", " ") + "'")
	j := newJob(1, func(replies [][]byte) []byte { return bytes.Replace(replies[0], []byte("'time'"), name, 1) })
	f.put(&entry{kind: part, slot: elsewhere, c: at, raw: timeRequest, job: j})
	return nil
}

var timeRequest = resp.AppendCommandStrings(nil, "TIME")
