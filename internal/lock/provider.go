package lock

import (
	"context"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Provider grants sessions, keeps their leases and ends them, over connections of the proxy's
// own. The redis provider is the store itself (tokenstore.Store).
//
// Errors: tokenstore.ErrLost and ErrLapsed as Renew says; any other error means that the provider
// could not be asked, and that the hold may still stand until its lease ends.
type Provider interface {
	// Begin takes the session for a queued waiter, or leaves it in its place in the queue.
	Begin(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, waiter string, expected tokenstore.Basis) (tokenstore.Begin, error)
	// Renew extends a hold by its lease from now. ErrLost: another grant was issued, to holder, who
	// may have left already; grant 0: the record is gone. ErrLapsed: the lease ended and nobody came; resume takes it up again.
	Renew(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64, resume bool) (holder tokenstore.Holder, err error)
	// Release ends a hold, with grant 0 whatever the owner holds, and hands the session on; revoke also uses up its grant. A hold that is
	// not the newest is left alone.
	Release(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, grant uint64, revoke bool) error
	// Leave takes a waiter out of the queue and hands on what was reserved for it meanwhile.
	Leave(ctx context.Context, r *tokenstore.Record, c *tokenstore.Claim, waiter string) error
}
