package locktest

import (
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// Harness is a provider with its servers, as the suite uses it.
type Harness struct {
	// Open opens a Locker for a new proxy, over a network of its own that ends with tb. The suite closes the Locker. It
	// is called while the servers are down, too, unless NotLater.
	Open func(tb testing.TB) Proxy
	// Servers are the provider's servers, all of them.
	Servers Servers
	// End ends the hold of a session at the servers, as an operator would.
	End func(tb testing.TB, session string)
	// Waiting is how many stand in line for a session at the servers, its holder not counted. Nil unless the
	// provider promises that who comes first is served first.
	Waiting func(tb testing.TB, session string) int
	// KillOne ends one of several servers, without notice: the one that matters most, a leader if there is one. Servers.Start
	// starts it again. Nil if the provider needs all servers that there are.
	KillOne func(tb testing.TB)
	// StepClock steps the clock of one server that counts leases by it; nil if there is none such.
	StepClock func(tb testing.TB, by time.Duration)

	// Lease is how long a hold stands without a sign of life: what the settings say, and what a request asks for where it counts.
	Lease time.Duration
	// Gone is the longest time that a hold stands at the servers after its proxy has gone, at least Lease.
	Gone time.Duration
	// OwnLeases says that each hold has a lease of its own: one that nobody renews ends though its proxy is well.
	OwnLeases bool
	// NotLater says that Open needs the servers.
	NotLater bool
	// GoesAbove says that grants go above Request.Above.
	GoesAbove bool
}

// Proxy is a Locker, and the only way from it to the servers.
type Proxy struct {
	provider.Locker
	Network Network
}

// Network is between one proxy and all servers. All methods may be repeated.
type Network interface {
	// Cut closes all connections and refuses new ones, until Restore.
	Cut()
	Restore()
	// Blackhole keeps connections open, accepts new ones, and forwards nothing; turned off, it forwards what it has kept.
	Blackhole(on bool)
	// Open is the number of connections.
	Open() int
}

// Servers are a provider's servers. All methods may be repeated, and return when it has happened.
type Servers interface {
	// Stop ends all servers at once, without notice. What they have acknowledged is kept, but for those whose provider does not rely on it.
	Stop()
	// Start starts them again if they are stopped, and waits until they can be asked.
	Start()
	// Pause freezes all servers (SIGSTOP), Resume lets them go on.
	Pause()
	Resume()
}
