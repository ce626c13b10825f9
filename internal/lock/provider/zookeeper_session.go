package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// zookeeperSession is a ZooKeeper session of the proxy:
//
//	new ── the ensemble knows it ═══ connected ⇄ disconnected ═══ over ── left
//
// It is over when the ensemble says so, when the ensemble was not heard of for the session's timeout by this process's
// clock, or when the Locker closes; all that depends on it is over then, too. It never comes back: its connection (a zk.Conn) would
// begin another session by itself, but no longer finds a server.
//
// # Until
//
// The ensemble ends a session once it has not heard of it for the timeout. So it stands for the timeout after a question was asked that was
// answered. The question is a sync, which the leader answers, and refuses if the session is over: a server that has
// lost touch with the leader, which may have ended the session meanwhile, goes on to answer all others for a while.
type zookeeperSession struct {
	locker *zookeeper
	log    *slog.Logger
	dialer *zookeeperDialer
	conn   *zk.Conn
	events <-chan zk.Event

	over  chan struct{} // closed by end
	once  sync.Once
	ctx   context.Context // ends with over
	stop  context.CancelFunc
	tasks sync.WaitGroup // of those that it has started

	mu        sync.Mutex
	wire      *zookeeperWire // the last connection
	timeout   time.Duration  // agreed on; 0 until the ensemble knows the session
	untilTime time.Time
	online    bool
	authentic bool // what Auth says was said
	failure   error
	silent    bool  // the log says that there is no connection
	cause     error // why it is over
}

var (
	errZooKeeperSessionOver = errors.New("the ZooKeeper session is over")
	errZooKeeperExpired     = fmt.Errorf("%w: the ensemble has ended it", errZooKeeperSessionOver)
	errZooKeeperSilent      = fmt.Errorf("%w: the ensemble was not heard of for its timeout", errZooKeeperSessionOver)
)

func newZooKeeperSession(l *zookeeper, dialer *zookeeperDialer) *zookeeperSession {
	s := &zookeeperSession{
		locker: l, log: l.log, dialer: dialer,
		over: make(chan struct{}), authentic: l.settings.Auth == "", failure: errors.New("none has answered yet"),
	}
	s.ctx, s.stop = context.WithCancel(l.cut)
	return s
}

func (s *zookeeperSession) start() {
	var servers []string
	for _, server := range s.locker.settings.Servers {
		servers = append(servers, zookeeperAddress(server))
	}
	// No error is possible: the servers are some, and nothing is looked up yet.
	s.conn, s.events, _ = zk.Connect(servers, s.locker.settings.SessionTimeout,
		zk.WithHostProvider(&zookeeperServers{}), zk.WithDialer(s.dial), zk.WithEventCallback(s.hear),
		zk.WithLogger(zookeeperLog{s.log}), zk.WithLogInfo(false))
	s.tasks.Go(s.sayWhoWeAre)
	s.tasks.Go(s.keepAlive)
	s.tasks.Go(s.watchClock)
}

// leave ends the session at the ensemble, if that can be reached, and returns when nothing is left of it. It comes after end.
func (s *zookeeperSession) leave() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.conn.Close() // waits for the ensemble a second at most
	}()
	select {
	case <-closed:
	case <-s.locker.cut.Done():
	}
	s.mu.Lock()
	if s.wire != nil {
		_ = s.wire.Close()
	}
	s.mu.Unlock()
	<-closed
	for range s.events { // the client closes it as the last thing it does
	}
	s.tasks.Wait()
}

// end makes the session over. The first cause counts.
func (s *zookeeperSession) end(cause error) {
	s.once.Do(func() {
		s.mu.Lock()
		s.cause = cause
		if now := time.Now(); now.Before(s.untilTime) {
			s.untilTime = now
		}
		known := s.timeout > 0
		s.mu.Unlock()
		if known && !errors.Is(cause, errZooKeeperClosed) {
			s.log.Warn("all holds are lost", "cause", cause)
		}
		s.stop()
		close(s.over)
		s.locker.change()
	})
}

// dial is the client's way to a server.
func (s *zookeeperSession) dial(_, address string, _ time.Duration) (net.Conn, error) {
	select {
	case <-s.over:
		return nil, errZooKeeperSessionOver
	default:
	}
	wire, err := s.dialer.dial(s.ctx, address)
	if err != nil {
		s.fail(err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wire = wire
	return wire, nil
}

// fail notes why there is no connection, and says so in the log the first time.
func (s *zookeeperSession) fail(err error) {
	s.mu.Lock()
	first := !s.silent
	if first || !errors.Is(err, errZooKeeperWire) {
		s.failure = err
	}
	s.silent = true
	s.mu.Unlock()
	if first && s.ctx.Err() == nil {
		s.log.Warn("no connection to ZooKeeper; trying again", "error", err)
	}
}

// unreachable is the error of an Acquire that could not ask. ctx's error is in it only if that was cancelled: a deadline that passed without
// an answer is no reason to wait again.
func (s *zookeeperSession) unreachable(ended error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(ended, context.Canceled):
		return fmt.Errorf("zookeeper: not asked: %w", ended)
	case s.online:
		return errors.New("zookeeper: no answer came in time")
	default:
		return fmt.Errorf("zookeeper: no server can be reached: %v", s.failure) //nolint:errorlint // it may have a deadline of its own in it
	}
}

// hear is told by the client how the connection fares, in the client's goroutines, before anything is sent over a new one.
func (s *zookeeperSession) hear(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	switch e.State { //nolint:exhaustive // the others don't matter
	case zk.StateHasSession:
		s.greet()
	case zk.StateDisconnected:
		s.setOnline(false)
		s.fail(errZooKeeperWire)
	case zk.StateExpired:
		s.end(errZooKeeperExpired)
	}
}

// greet notes that a server has taken the session on.
func (s *zookeeperSession) greet() {
	s.mu.Lock()
	s.timeout = s.wire.timeout()
	s.silent = false
	if until := s.wire.dialed.Add(s.timeout); until.After(s.untilTime) {
		s.untilTime = until
	}
	timeout, server := s.timeout, s.wire.RemoteAddr()
	s.mu.Unlock()
	s.log.Info("connected to ZooKeeper", "server", server, "session_timeout", timeout)
	s.setOnline(true)
}

func (s *zookeeperSession) setOnline(online bool) {
	s.mu.Lock()
	s.online = online
	s.mu.Unlock()
	s.locker.change()
}

func (s *zookeeperSession) isConnected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.online && s.authentic && s.cause == nil
}

// until is when the session is over unless the ensemble is heard of.
func (s *zookeeperSession) until() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untilTime
}

// stands reports whether the session is not over yet by the clock, whether or not that was seen.
func (s *zookeeperSession) stands() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause == nil && time.Now().Before(s.untilTime)
}

// sayWhoWeAre logs in. The client does it again with every new connection.
func (s *zookeeperSession) sayWhoWeAre() {
	auth := s.locker.settings.Auth
	if auth == "" {
		return
	}
	for s.ctx.Err() == nil {
		if err := s.conn.AddAuth("digest", []byte(auth)); err == nil {
			s.mu.Lock()
			s.authentic = true
			s.mu.Unlock()
			s.locker.change()
			return
		}
		s.pause(50 * time.Millisecond)
	}
}

// touch asks the leader, and so extends the session.
func (s *zookeeperSession) touch() error {
	asked := time.Now()
	if _, err := s.conn.Sync("/"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// An answer that comes after the end makes nothing undone: what has ended stays so.
	if until := asked.Add(s.timeout); s.cause == nil && until.After(s.untilTime) {
		s.untilTime = until
	}
	return nil
}

// keepAlive touches the session four times within its timeout.
func (s *zookeeperSession) keepAlive() {
	for s.ctx.Err() == nil {
		switch err := s.touch(); {
		case errors.Is(err, zk.ErrSessionExpired):
			s.end(errZooKeeperExpired)
		case err != nil:
			s.pause(20 * time.Millisecond)
		default:
			s.mu.Lock()
			quarter := s.timeout / 4
			s.mu.Unlock()
			s.pause(quarter)
		}
	}
}

// watchClock ends the session when its time is up.
func (s *zookeeperSession) watchClock() {
	for s.ctx.Err() == nil {
		until := s.until()
		switch left := time.Until(until); {
		case until.IsZero():
			s.pause(20 * time.Millisecond)
		case left > 0:
			s.pause(left)
		default:
			s.end(errZooKeeperSilent)
		}
	}
}

func (s *zookeeperSession) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

// reconnected waits for a connection, for as long as the session stands.
func (s *zookeeperSession) reconnected() error {
	for {
		_, changed := s.locker.look()
		if s.isConnected() {
			return nil
		}
		select {
		case <-changed:
		case <-s.over:
			return s.ended()
		}
	}
}

// ended is why the session is over.
func (s *zookeeperSession) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("zookeeper: %w", s.cause)
}

// check is Locker.Check.
func (s *zookeeperSession) check(ctx context.Context) error {
	_, err := zookeeperAsk(ctx, s, func() (struct{}, error) {
		for {
			err := s.try()
			if !errors.Is(err, zk.ErrNoNode) {
				return struct{}{}, err
			}
			if err := s.makePath(s.locker.settings.Path); err != nil {
				return struct{}{}, err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("zookeeper: create a node below %s: %w", s.locker.settings.Path, err)
	}
	return nil
}

// try creates a node in a transaction that cannot succeed.
func (s *zookeeperSession) try() error {
	path := s.locker.settings.Path
	results, err := s.conn.Multi(
		&zk.CreateRequest{Path: path + "/check-", Acl: s.locker.acl, Flags: zk.FlagEphemeralSequential},
		&zk.CheckVersionRequest{Path: path, Version: math.MaxInt32},
	)
	if len(results) > 0 && results[0].Error != nil {
		return results[0].Error
	}
	if errors.Is(err, zk.ErrBadVersion) || len(results) > 1 && errors.Is(results[1].Error, zk.ErrBadVersion) {
		return nil
	}
	return err
}

// makePath creates a node for good, and those above it that there are not.
func (s *zookeeperSession) makePath(path string) error {
	for {
		_, err := s.conn.Create(path, nil, zk.FlagPersistent, s.locker.acl)
		above := path[:strings.LastIndexByte(path, '/')]
		switch {
		case err == nil || errors.Is(err, zk.ErrNodeExists):
			return nil
		case !errors.Is(err, zk.ErrNoNode) || above == "":
			return fmt.Errorf("create %s: %w", path, err)
		}
		if err := s.makePath(above); err != nil {
			return err
		}
	}
}

// spawn runs a task that leave waits for, unless the session is over.
func (s *zookeeperSession) spawn(task func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return false
	}
	s.tasks.Go(task)
	return true
}

// zookeeperAsk asks, and returns when there is an answer, or ctx or the session ends: go-zookeeper's calls know no context.
func zookeeperAsk[T any](ctx context.Context, s *zookeeperSession, question func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	var none T
	if !s.spawn(func() {
		value, err := question()
		answered <- answer{value, err}
	}) {
		return none, s.ended()
	}
	select {
	case a := <-answered:
		if errors.Is(a.err, zk.ErrSessionExpired) {
			s.end(errZooKeeperExpired)
			return none, s.ended()
		}
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-s.over:
		return none, s.ended()
	}
}

// zookeeperLog writes what go-zookeeper says.
type zookeeperLog struct{ log *slog.Logger }

func (l zookeeperLog) Printf(format string, args ...any) {
	l.log.Debug(strings.TrimSpace(fmt.Sprintf(format, args...)))
}
