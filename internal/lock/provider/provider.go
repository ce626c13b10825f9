package provider

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Locker grants sessions. It is safe for concurrent use.
type Locker interface {
	// Acquire takes a session, and waits in line until it is granted or ctx ends. When it returns an error, the caller
	// stands in no line and holds nothing, or what it may hold (the answer was lost) is being given back and
	// ends with its lease. Errors: ctx's, wrapped; any other one means that the provider could not be asked.
	Acquire(ctx context.Context, r Request) (Hold, error)
	// Check asks the provider whether it would grant: it is there, and it knows and lets the proxy. It takes nothing.
	Check(ctx context.Context) error
	// Close gives back what is held and leaves every line, waits for that until ctx ends, and closes the connections.
	Close(ctx context.Context) error
}

// Request says what is to be granted.
type Request struct {
	// Session names the session: any bytes, unique among all databases and rules of the store.
	Session string
	// Holder says who asks, for people: one line, shown where the provider can show it.
	Holder string
	// Lease is how long the hold stands unless it is renewed, for providers whose leases are a hold's own. Others
	// have the lease of the proxy's session in their settings.
	Lease time.Duration
	// Above is the newest grant that the store knows for the session, 0 if none: a provider that chooses its grants
	// by itself goes above it.
	Above uint64
}

// Hold is a session that was granted. It is safe for concurrent use.
type Hold interface {
	// Grant is the hold's number, larger than that of every hold of the session before.
	Grant() uint64
	// Until is when the hold ends unless it is renewed, by this process's monotonic clock, counted from before the
	// provider was asked.
	Until() time.Time
	// Renew extends the hold by its lease. Errors: ErrLost when the hold is over; any other error means that the provider could
	// not be asked, and the hold stands until Until.
	Renew(ctx context.Context) error
	// Release ends the hold if it is not over yet; the next in line is granted. It may be called twice, and late. An
	// error means that the provider could not be asked: the hold ends with its lease.
	Release(ctx context.Context) error
	// Lost is closed when the provider has said that the hold is over before it was released, or when it could
	// not be renewed until Until.
	Lost() <-chan struct{}
}

// ErrLost says that a hold is over: its lease ended, or somebody ended it.
var ErrLost = errors.New("the hold is over at the lock provider")

// Environment is what a provider has from its proxy.
type Environment struct {
	Proxy string // the proxy's id: unique among all of a provider, one word
	Log   *slog.Logger
}

// Kind is one provider as the configuration knows it.
type Kind struct {
	// Name is its word in lock.provider, and the name of its part of the configuration: lock.<name>.
	Name string
	// Settings returns a pointer to a new struct that has the defaults in it: exported fields with yaml tags, of types string, bool, int,
	// time.Duration and []string.
	Settings func() Settings
	// Open makes a Locker. It does not wait for the provider: one that is down is tried again for as long as the Locker is open. An error
	// says that the settings can't be used. The caller closes the Locker.
	Open func(s Settings, env Environment) (Locker, error)
}

// Settings are one provider's part of the configuration.
type Settings interface {
	// Validate names the first setting that can't be, as its path below lock.<name>, and says how to mend it; "" if all can be.
	Validate() (setting, remedy string)
}
