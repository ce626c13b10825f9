package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// ZooKeeper keeps locks on a ZooKeeper ensemble, 3.5.3 or newer. Its settings are ZooKeeperSettings.
//
//	path                                  persistent
//	└── agent%3Actx                       a session: a container, which the servers remove some time after its last use
//	    ├── 4ac1…-0000000007              an owner: ephemeral, sequential; its data says who, for people
//	    └── 93fe…-0000000008              waits for …07 only: a release wakes one waiter, not all
//
// Who has the smallest sequence number holds the session, so waiters are served first come first served, among all proxies. The grant is the
// czxid of the owner's node: the number of the transaction that created it. The ensemble numbers all its transactions in one
// sequence, which survives restarts, and it grows with the sequence numbers of the nodes.
//
// A free session costs two round trips, its release a third that nobody waits for.
//
// # Nodes without an owner
//
// When a connection breaks, the answer that says that a node was created may be lost. Each node's name begins with an id that was
// made up for it, so it is found again, after a sync: the server asked may lag behind. The node of an owner who has given
// up is deleted, however often that has to be tried; it goes with the proxy's ZooKeeper session in any case.
//
// # Life
//
// All holds of a proxy end with its ZooKeeper session (zookeeperSession), which it keeps alive: Hold.Renew need not be called for
// that. A hold's lease is session_timeout, whatever the request says. A proxy that hears nothing from the ensemble for so
// long counts its holds as lost, without asking; the ensemble ends them no earlier.
var ZooKeeper = Kind{Name: "zookeeper", Settings: zookeeperDefaults, Open: openZooKeeper}

// zookeeper is the Locker. It has one ZooKeeper session after the other.
type zookeeper struct {
	settings ZooKeeperSettings
	acl      []zk.ACL
	log      *slog.Logger

	closing  chan struct{} // closed by Close
	close    sync.Once
	cut      context.Context // ends when Close gives up on leaving in an orderly way
	cutOff   context.CancelFunc
	finished chan struct{} // closed when nothing is left of the Locker

	mu      sync.Mutex
	current *zookeeperSession
	changed chan struct{} // closed and replaced when another session is current, or this one's connection comes or goes
}

var errZooKeeperClosed = errors.New("zookeeper: the provider is closed")

// zookeeperPatience is how long an Acquire waits for a connection before it says that there is none: as long as it takes to elect
// another leader.
const zookeeperPatience = 3 * time.Second

func openZooKeeper(s Settings, env Environment) (Locker, error) {
	settings, ok := s.(*ZooKeeperSettings)
	if !ok {
		return nil, fmt.Errorf("zookeeper has no settings of type %T", s)
	}
	if setting, remedy := settings.Validate(); setting != "" {
		return nil, fmt.Errorf("zookeeper: %s: %s", setting, remedy)
	}
	l := &zookeeper{
		settings: *settings,
		acl:      zk.WorldACL(zk.PermAll),
		log:      env.Log.With("provider", "zookeeper"),
		closing:  make(chan struct{}),
		finished: make(chan struct{}),
		changed:  make(chan struct{}),
	}
	if settings.Auth != "" {
		l.acl = zk.AuthACL(zk.PermAll)
	}
	l.cut, l.cutOff = context.WithCancel(context.Background())
	dialer, err := newZooKeeperDialer(settings)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	go l.run(l.begin(dialer), dialer)
	return l, nil
}

// run has one session after the other, until Close.
func (l *zookeeper) run(s *zookeeperSession, dialer *zookeeperDialer) {
	defer close(l.finished)
	var leaving sync.WaitGroup
	defer leaving.Wait()
	for ; ; s = l.begin(dialer) {
		select {
		case <-s.over:
		case <-l.closing:
			s.end(errZooKeeperClosed)
		}
		leaving.Go(s.leave)
		select {
		case <-l.closing:
			return
		case <-time.After(100 * time.Millisecond): // between sessions that the ensemble ends at once
		}
	}
}

// begin makes a session current. Whether there is a server will show.
func (l *zookeeper) begin(dialer *zookeeperDialer) *zookeeperSession {
	s := newZooKeeperSession(l, dialer)
	l.mu.Lock()
	l.current = s
	l.mu.Unlock()
	s.start()
	return s
}

// change tells those who wait for a connection to look again.
func (l *zookeeper) change() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *zookeeper) look() (current *zookeeperSession, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.changed
}

// connected waits for a session that has a connection, for some time.
func (l *zookeeper) connected(ctx context.Context) (*zookeeperSession, error) {
	enough := time.NewTimer(zookeeperPatience)
	defer enough.Stop()
	for {
		s, changed := l.look()
		if s.isConnected() {
			return s, nil
		}
		select {
		case <-changed:
		case <-l.closing:
			return nil, errZooKeeperClosed
		case <-ctx.Done():
			return nil, s.unreachable(ctx.Err())
		case <-enough.C:
			return nil, s.unreachable(nil)
		}
	}
}

// Acquire stands in line under the current ZooKeeper session. When that ends, it does so again under the next, at the end of the line.
func (l *zookeeper) Acquire(ctx context.Context, r Request) (Hold, error) {
	for {
		s, err := l.connected(ctx)
		if err != nil {
			return nil, err
		}
		hold, err := s.acquire(ctx, r)
		switch {
		case err == nil:
			return hold, nil
		case !errors.Is(err, errZooKeeperSessionOver):
			return nil, err
		case ctx.Err() != nil:
			return nil, s.unreachable(ctx.Err())
		default: // again, unless the Locker is closed
		}
	}
}

// Check has the ensemble try to create a node and take that back in the same transaction, so it tells whether there is a quorum and whether it
// would let us; nothing changes.
func (l *zookeeper) Check(ctx context.Context) error {
	s, err := l.connected(ctx)
	if err != nil {
		return err
	}
	return s.check(ctx)
}

// Close ends the ZooKeeper session, and all nodes with it.
func (l *zookeeper) Close(ctx context.Context) error {
	l.close.Do(func() { close(l.closing) })
	select {
	case <-l.finished:
		l.cutOff()
		return nil
	case <-ctx.Done():
		l.cutOff()
		return fmt.Errorf("zookeeper: close the session: %w", ctx.Err())
	}
}
