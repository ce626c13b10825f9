package proxy

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/upstream"
)

// Clients that have logged in with the same words share connections that Redis has logged in with them.
// Each has logged in over a connection of its own first, which stays: Redis ends it together with the shared ones when
// the user is deleted, and it serves when the words are good no longer. For those may come to mean another user, of the
// same name. So a client uses a shared connection once its own has been seen alive since that was made: both are the
// same user's then, as long as they last. And one that has ended is not made anew for those who were there; who logs
// in later begins afresh.
type logins struct {
	mu  sync.Mutex
	by  map[loginKey]*shares // for those who log in now
	all map[*shares]struct{} // that have clients
}

// restsMost is how long a busy client that has logged in leaves its own connection idle: Redis may be set to close one
// that is (timeout, in seconds).
const restsMost = 500 * time.Millisecond

// serve reports whether a client is to share now, rather than use its own connection.
func (s *shares) serve(c *client) bool {
	if s.login == nil || c.call.Frames > 0 {
		return true
	}
	now := time.Now()
	if s.ended.Load() || now.Sub(c.ownUsed) > restsMost {
		c.ownUsed = now
		return false
	}
	return true
}

// doAsItself is do for a client that has logged in: over its own connection, if the shared one has ended.
func (c *client) doAsItself() error {
	c.call.Replies = c.call.Replies[:0] // of the call before
	err := c.meet()
	switch {
	case err == nil:
		err = c.shared.Do(c.call)
	case !errors.Is(err, upstream.ErrSpent):
		return err // its own has ended
	}
	if err != nil && !errors.Is(err, upstream.ErrTooMuch) {
		c.srv.logins.end(c.shares)
	}
	if errors.Is(err, upstream.ErrSpent) {
		c.up.Pass(c.call.Requests, c.call.Frames)
		return nil
	}
	return err
}

// meet makes sure, once, that a shared connection is of the client's own user. The error is upstream.ErrSpent if
// there is none.
func (c *client) meet() error {
	if slices.Contains(c.met, c.shared) {
		return nil
	}
	call := upstream.NewCall()
	defer call.Release()
	call.Requests, call.Frames = []byte(ping), 1
	if err := c.shared.Do(call); err != nil {
		return fmt.Errorf("%w: %w", upstream.ErrSpent, err)
	}
	x := upstream.NewExchange()
	x.Reset(1, -1, false, nil)
	if err := c.roundTrip(x, []byte(ping)); err != nil {
		return err
	}
	c.met = append(c.met, c.shared)
	return nil
}

// loginKey is a Login to look up.
type loginKey struct {
	words       int
	first, last string
}

func keyOf(as upstream.Login) loginKey { return loginKey{len(as), as[0], as[len(as)-1]} }

// join counts one client more among those with a login, and returns what they share; nil for nobody's.
func (s *Server) join(as upstream.Login) *shares {
	if len(as) == 0 {
		return nil
	}
	l := &s.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.by[keyOf(as)]
	if of == nil {
		of = newShares(s.upstream, as, s.limits.Load().upstream())
		if l.by == nil {
			l.by, l.all = map[loginKey]*shares{}, map[*shares]struct{}{}
		}
		l.by[keyOf(as)] = of
		l.all[of] = struct{}{}
	}
	of.clients.Add(1)
	return of
}

// leave counts one client less, of those with a login or of the others; with the last one of a login its
// connections go.
func (l *logins) leave(of *shares) {
	if of == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if of.clients.Add(-1) > 0 || of.login == nil {
		return
	}
	l.forget(of)
	delete(l.all, of)
	of.close()
}

// end notes that one of a login's connections has ended.
func (l *logins) end(of *shares) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(of)
	of.ended.Store(true)
}

// forget lets those who log in from now on begin afresh. Called with mu held.
func (l *logins) forget(of *shares) {
	if key := keyOf(of.login); l.by[key] == of {
		delete(l.by, key)
	}
}

// close breaks all connections.
func (l *logins) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of := range l.all {
		of.close()
	}
}
