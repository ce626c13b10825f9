package tokenstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Store speaks to the fence records of one upstream. Its Append and Parse methods make and read
// bytes that travel on a client's own upstream connection; its other methods use connections of
// the proxy's own. It is safe for concurrent use.
type Store struct {
	own      dialect
	spanning *dialect      // of records that span; nil: there are none
	header   string        // of each script
	floor    atomic.Uint64 // the largest grant seen: the next one is above it; outside, the largest token that a look has made
	waiters  atomic.Uint64 // how many may wait for one session
	loads    atomic.Int64  // of the scripts
	options  *redis.Options

	mu      sync.Mutex
	clients map[int]*redis.Client // the proxy's own connections, by database
	closed  bool
	onClose []func()
}

// Open connects to the store, learns its dialect and loads the scripts. provider is the name of
// the lock provider whose grants the records carry. The caller closes the Store.
func Open(ctx context.Context, options *redis.Options, provider string) (*Store, error) {
	s := &Store{options: options, clients: map[int]*redis.Client{}}
	s.waiters.Store(anyWaiters)
	s.header = allowOOM
	if err := s.Client(0).Eval(ctx, allowOOM+"return 1", nil).Err(); err != nil {
		if !strings.Contains(err.Error(), "script") && !strings.Contains(err.Error(), "ERR") {
			s.Close()
			return nil, fmt.Errorf("ask the store for its script dialect: %w", err)
		}
		s.header = dirtied
	}
	s.own = dialect{provider, newScripts(s.header, provider != Own)}
	if err := s.Load(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Unused returns a store that keeps no records, and of which only Client is used.
func Unused(options *redis.Options) *Store {
	return &Store{options: options, clients: map[int]*redis.Client{}}
}

// ownBuffer is the size of each buffer of a connection of the proxy's own, in bytes: what goes over it is short, and a
// moment in which many are needed leaves them behind.
const ownBuffer = 4 << 10

// anyWaiters is more than ever wait.
const anyWaiters = 1 << 31

// LimitWaiters sets how many may wait for one session, those of other proxies included, when this one's
// clients come to it. Without it any number may.
func (s *Store) LimitWaiters(most int) { s.waiters.Store(uint64(most)) }

// Client returns the proxy's own client for a database.
func (s *Store) Client(db int) *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[db]
	if c == nil {
		o := *s.options
		o.DB = db
		o.ReadBufferSize, o.WriteBufferSize = ownBuffer, ownBuffer
		o.PipelinePoolSize = -1 // which would have large ones
		c = redis.NewClient(&o)
		s.clients[db] = c
		if s.closed {
			_ = c.Close()
		}
	}
	return c
}

// Rest closes the proxy's own connections until they are needed again.
func (s *Store) Rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for db, c := range s.clients {
		_ = c.Close()
		delete(s.clients, db)
	}
}

// OnClose has a function called once the proxy's own connections are closed.
func (s *Store) OnClose(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onClose = append(s.onClose, do)
}

// Close closes the proxy's own connections.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, c := range s.clients {
		_ = c.Close()
	}
	for _, do := range s.onClose {
		do()
	}
	s.onClose = nil
}

// Load loads the scripts: at start, and again when the store has forgotten them.
func (s *Store) Load(ctx context.Context) error {
	if s.spanning != nil {
		if err := s.load(ctx, s.spanning.scripts); err != nil {
			return err
		}
	}
	s.loads.Add(1)
	return s.load(ctx, s.own.scripts)
}

func (s *Store) load(ctx context.Context, all *scripts) error {
	for _, script := range all.loaded() {
		if err := s.Client(0).ScriptLoad(ctx, script.source).Err(); err != nil {
			return fmt.Errorf("load the fence scripts: %w", err)
		}
	}
	return nil
}

// Reloads returns how often the store had forgotten the scripts and got them again.
func (s *Store) Reloads() int64 { return max(s.loads.Load()-1, 0) }

// Allowed makes sure that the store lets the proxy's user WATCH, MULTI and EXEC, on which each commit
// stands: without them its command would be carried out by itself.
func (s *Store) Allowed(ctx context.Context) error {
	conn := s.Client(0).Conn()
	defer conn.Close()
	for _, command := range [][]any{{"WATCH", Prefix}, {"MULTI"}, {"EXEC"}} {
		if err := conn.Do(ctx, command...).Err(); err != nil {
			return fmt.Errorf("%v: %w", command[0], err)
		}
	}
	return nil
}

// saw raises the floor below which the store issues no grant.
func (s *Store) saw(grant uint64) {
	if s.own.provider == Own {
		s.raise(grant)
	}
}

// Raise has all grants that the store issues from now on be above this one.
func (s *Store) Raise(grant uint64) { s.raise(grant) }

// Ping asks the store for a sign of life.
func (s *Store) Ping(ctx context.Context) error { return s.Client(0).Ping(ctx).Err() }

func (s *Store) raise(grant uint64) {
	for {
		old := s.floor.Load()
		if grant <= old || s.floor.CompareAndSwap(old, grant) {
			return
		}
	}
}

// Newest is the largest grant that this proxy has seen: those that it asks for are above it.
func (s *Store) Newest() uint64 { return s.floor.Load() }

// errElsewhere says that the store itself was asked for a grant.
var errElsewhere = errors.New("a lock provider elsewhere grants, and not the store")

// Begin is AppendBegin over the proxy's own connection.
func (s *Store) Begin(ctx context.Context, r *Record, c *Claim, waiter string, expected Basis) (Begin, error) {
	d := s.of(r)
	if d.outside {
		return Begin{}, errElsewhere
	}
	part, err := s.run(ctx, &d.begin, r, c.Owner, c.info, c.lease, c.ttl, s.floor.Load(), d.provider, reserve, waiter, expected.encode(), "beside", s.waiters.Load())
	if err != nil {
		return Begin{}, err
	}
	return s.parseBegin(part)
}

// Renew extends a hold by its lease from now. ErrLost says that another grant was issued or the
// record is gone; holder is then who has the session now, or nobody with the newest grant, or with
// 0 when the record is gone. ErrLapsed says that the
// lease has ended but nobody has come since; with resume the hold is then taken up again.
func (s *Store) Renew(ctx context.Context, r *Record, c *Claim, grant uint64, resume bool) (holder Holder, err error) {
	part, err := s.run(ctx, &s.of(r).renew, r, c.Owner, c.info, c.lease, c.ttl, grant, flag(resume))
	switch {
	case err != nil:
		return Holder{}, err
	case part[0] == "lost":
		return lostTo(part), ErrLost
	case part[0] == "lapsed":
		return Holder{}, ErrLapsed
	}
	return Holder{}, nil
}

// lostTo reads who has, or at least which grant is, the session's newest.
func lostTo(part []string) Holder {
	h := parseHolder(part[1])
	if !h.Held() {
		h.Grant, _ = strconv.ParseUint(part[2], 10, 64)
	}
	return h
}

// Release ends a hold, or with grant 0 whatever the owner holds, and hands the session on; a hold that is no longer the newest is left
// alone. With revoke the grant is used up as well: no write under it is accepted any more.
func (s *Store) Release(ctx context.Context, r *Record, c *Claim, grant uint64, revoke bool) error {
	_, err := s.run(ctx, &s.of(r).release, r, c.Owner, c.ttl, s.floor.Load(), s.of(r).provider, reserve, grant, flag(revoke))
	return err
}

// Leave takes a waiter out of the queue, and hands on what was reserved for it meanwhile.
func (s *Store) Leave(ctx context.Context, r *Record, c *Claim, waiter string) error {
	_, err := s.run(ctx, &s.of(r).leave, r, waiter, c.Owner, c.info, c.ttl, s.floor.Load(), s.of(r).provider, reserve)
	return err
}

// Settle repeats a holder's settlement outside its commit, for when the store had forgotten the
// script in the middle of one.
func (s *Store) Settle(ctx context.Context, c *Commit) error {
	_, err := s.run(ctx, &s.of(c.Record).settle, c.Record, c.Claim.Owner, c.Claim.info, c.Claim.lease, c.Claim.ttl,
		s.floor.Load(), s.of(c.Record).provider, reserve, c.Grant, c.Seq, c.keep())
	return err
}

// run calls a script over the proxy's own connection and flattens its answer.
func (s *Store) run(ctx context.Context, script *script, r *Record, args ...any) ([]string, error) {
	v, err := redis.NewScript(script.source).Run(ctx, s.Client(r.DB), r.Keys(), args...).Result()
	if err != nil {
		var reply redis.Error
		if errors.As(err, &reply) {
			return nil, replyError(reply.Error())
		}
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	part := make([]string, len(list))
	for i, e := range list {
		switch e := e.(type) {
		case string:
			part[i] = e
		case int64:
			part[i] = strconv.FormatInt(e, 10)
		}
	}
	return part, nil
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}
