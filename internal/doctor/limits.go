package doctor

import (
	"context"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/size"
)

const (
	// usualBulk is the longest argument that Redis takes unless it is told otherwise.
	usualBulk = 512 << 20
	// quickBusy is from where down on a script of the fence may be taken for one that hangs, on a machine that is busy.
	quickBusy = 100 * time.Millisecond
)

// limits looks at what Redis ends, refuses or keeps by itself.
func limits(ctx context.Context, e *exam) {
	idle, err := e.settingNumber(ctx, "timeout")
	if err != nil {
		e.unsure(err, "in your provider's settings timeout should be 0, tcp-keepalive 60 to 300, and maxclients above limits.connections")
		return
	}
	good := true
	told := func(remedy, what string, args ...any) {
		good = false
		e.warn(remedy, what, args...)
	}
	if longest, name := e.longestHold(); idle > 0 && time.Duration(idle)*time.Second <= longest {
		told("set timeout 0", "timeout %d: Redis closes connections that are idle for %ds, and so ends sequences that think for longer (rule %s lets them for %s): FENCED",
			idle, idle, name, rule.Text(longest))
	}
	if alive, err := e.settingNumber(ctx, "tcp-keepalive"); err == nil && alive == 0 {
		told("set tcp-keepalive 60", "tcp-keepalive 0: connections of proxies and clients that are gone without a word are never noticed")
	}
	busy, err := e.settingNumber(ctx, "lua-time-limit") // busy-reply-threshold's name since the beginning
	if d := time.Duration(busy) * time.Millisecond; err == nil && busy > 0 && d < quickBusy {
		told("set busy-reply-threshold (lua-time-limit before 7.0) 5000", "busy-reply-threshold %s: on a busy machine Redis answers BUSY while a script of the fence runs", d)
	}
	if bulk, err := e.settingNumber(ctx, "proto-max-bulk-len"); err == nil && bulk < usualBulk {
		told("leave proto-max-bulk-len at 512mb, unless you mean it", "proto-max-bulk-len %s: longer values are refused, by Redis and so by the proxy", size.Size(bulk))
	}
	if clients, err := e.settingNumber(ctx, "maxclients"); err == nil && e.Config.Limits.Connections > 0 && int64(e.Config.Limits.Connections) > clients {
		told("raise maxclients, or lower limits.connections", "maxclients %d is less than limits.connections (%d) of one proxy: its clients may need a connection each", clients, e.Config.Limits.Connections)
	}
	if good {
		e.ok("timeout, tcp-keepalive, busy-reply-threshold, proto-max-bulk-len and maxclients suit the configuration")
	}
}

// longestHold is how long a client may think in the middle of a sequence, and under which rule.
func (e *exam) longestHold() (longest time.Duration, name string) {
	for _, r := range e.Config.Rules {
		if d := min(r.Idle, r.MaxHold); r.Guards() && d > longest {
			longest, name = d, r.Name
		}
	}
	return longest, name
}
