package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Etcd keeps locks in etcd (3.4 and later). Its settings are EtcdSettings.
//
//	prefix line/<session>/<lease>-<n>   a place in a session's line; its value says who stands there
//	prefix left/<lease>-<n>             a place that was given up while it was not known whether it was taken
//
// A proxy has one lease, and all its keys are bound to it: etcd deletes them when it is not renewed for ttl, or when it is revoked
// (Close). Each Acquire has a place of its own:
//
//	enter    put the place if it was never put or left, and read who is before it: one transaction, one round trip
//	wait     watch the nearest one before it, and nobody else; when it has gone and was the only one, the session is granted
//	release  delete the place
//
// The grant is the revision that has made the place: revisions grow by each write to the cluster. The line is in the order of
// grants, so waiters are served first come first served, among all proxies.
//
// # When answers are lost
//
// A place's name is used once, so entering it again finds what the first attempt has done. What was given up without an answer
// is written down as left, in the transaction that deletes it: should the first attempt reach etcd later, it does nothing.
//
// # Loss
//
// The lease counts from before the request that has renewed it, so a hold is lost here before it ends at etcd. An
// operator ends a hold by deleting its key, which is seen by the next Renew, or all of a proxy's by revoking its lease.
//
// An etcd that was restored from a backup counts on from there. The store refuses such grants until they are above its own.
var Etcd = Kind{Name: "etcd", Settings: newEtcdSettings, Open: openEtcd}

var (
	errEtcdClosed = errors.New("the lock provider was closed")
	// errEtcdLease says that the lease of a place is over, and with it the place.
	errEtcdLease = errors.New("the proxy's lease at etcd is over")
)

// etcdLocker is the Locker. Its goroutine, run, keeps a lease at all times.
type etcdLocker struct {
	settings *EtcdSettings
	config   clientv3.Config
	log      *slog.Logger

	life context.Context // ends, with its cause, when Close begins
	end  context.CancelCauseFunc

	mu      sync.Mutex
	tasks   sync.WaitGroup // run, each Acquire, each place that is being given up; added to under mu
	client  *clientv3.Client
	lease   *etcdLease    // nil while there is none
	leased  chan struct{} // closed when there is a lease
	trouble error         // why there is none

	explained bool   // in the log, since there was one
	places    uint64 // names for places
}

func openEtcd(s Settings, env Environment) (Locker, error) {
	settings := s.(*EtcdSettings)
	if setting, remedy := settings.Validate(); setting != "" {
		return nil, fmt.Errorf("%s: %s", setting, remedy)
	}
	config, err := settings.client()
	if err != nil {
		return nil, err
	}
	l := &etcdLocker{
		settings: settings, config: config, log: env.Log.With("provider", "etcd"),
		leased: make(chan struct{}), trouble: errors.New("it has not answered yet"),
	}
	l.life, l.end = context.WithCancelCause(context.Background())
	l.tasks.Go(l.run)
	return l, nil
}

// Acquire implements Locker.
func (l *etcdLocker) Acquire(ctx context.Context, r Request) (Hold, error) {
	if !l.begin() {
		return nil, errEtcdClosed
	}
	defer l.tasks.Done()
	for {
		lease, err := l.current(ctx)
		if err != nil {
			return nil, err
		}
		hold, err := lease.acquire(ctx, r)
		if err == nil {
			return hold, nil
		}
		if !errors.Is(err, errEtcdLease) {
			return nil, fmt.Errorf("acquire at etcd: %w", err)
		}
	}
}

// Check implements Locker. The transaction changes nothing, but is one that writes: it needs a quorum, room, and the right to write.
func (l *etcdLocker) Check(ctx context.Context) error {
	lease, err := l.current(ctx)
	if err != nil {
		return err
	}
	key := l.settings.Prefix + "line/"
	never := clientv3.Compare(clientv3.Version(key), "<", 0)
	err = l.settings.ask(ctx, func(ctx context.Context) error {
		_, err := lease.client.Txn(ctx).If(never).Then(clientv3.OpPut(key, "")).Else(clientv3.OpGet(key)).Commit()
		return err
	})
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	return nil
}

// Close implements Locker. Revoking the lease deletes all that the proxy has at etcd, whatever else is on its way.
func (l *etcdLocker) Close(ctx context.Context) error {
	if !l.shut() {
		return nil
	}
	idle := make(chan struct{})
	go func() { l.tasks.Wait(); close(idle) }()
	select {
	case <-idle: // soon: what tasks ask etcd ends with life
	case <-ctx.Done():
	}

	l.mu.Lock()
	client, lease := l.client, l.lease
	l.mu.Unlock()
	if client == nil {
		return nil
	}
	defer func() { _ = client.Close() }()
	if lease == nil {
		return nil
	}
	_, err := client.Revoke(ctx, lease.id)
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke the proxy's lease at etcd, which ends by itself within %v: %w", l.settings.TTL, err)
	}
	return nil
}

// shut ends life, and with it all that is held; false means that this was done before.
func (l *etcdLocker) shut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		return false
	}
	if l.lease != nil {
		l.lease.over(errEtcdClosed)
	}
	l.end(errEtcdClosed)
	return true
}

// begin enters a task; false means that the Locker is closed.
func (l *etcdLocker) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		return false
	}
	l.tasks.Add(1)
	return true
}

// run has the goroutine that keeps the proxy's lease, and makes a new one when it was lost.
func (l *etcdLocker) run() {
	for pause := newPause(); ; {
		lease, err := l.grant()
		if err == nil {
			pause = newPause()
			l.publish(lease)
			l.withdraw(lease, lease.keep())
		} else {
			l.explain(err)
		}
		if !pause.wait(l.life) {
			return
		}
	}
}

// grant makes a lease.
func (l *etcdLocker) grant() (*etcdLease, error) {
	client, err := l.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.life, l.settings.RequestTimeout)
	defer cancel()
	asked := time.Now()
	reply, err := client.Grant(ctx, int64(l.settings.TTL/time.Second))
	if err != nil {
		return nil, err
	}
	return newEtcdLease(l, client, reply.ID, asked, time.Duration(reply.TTL)*time.Second), nil
}

// connect makes the client, which logs in at once if there is a user, and fails when it can't.
func (l *etcdLocker) connect() (*clientv3.Client, error) {
	if l.client != nil {
		return l.client, nil
	}
	config := l.config
	connecting, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(l.life, cancel)
	config.Context = connecting
	client, err := clientv3.New(config)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	if !stop() {
		_ = client.Close()
		return nil, errEtcdClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client = client
	return client, nil
}

// publish makes a lease the current one.
func (l *etcdLocker) publish(lease *etcdLease) {
	l.log.Info("etcd has given the proxy a lease", "lease", fmt.Sprintf("%x", int64(lease.id)), "ttl", lease.ttl)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.explained = lease, false
	close(l.leased)
}

// withdraw ends a lease here, unless that has been done.
func (l *etcdLocker) withdraw(lease *etcdLease, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease != lease || l.life.Err() != nil {
		return
	}
	lease.over(errEtcdLease)
	l.log.Warn("the proxy's lease at etcd is lost, and all that it held there", "cause", cause)
	l.lease, l.leased, l.trouble = nil, make(chan struct{}), cause
}

// explain notes why there is no lease.
func (l *etcdLocker) explain(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	level := slog.LevelDebug
	if !l.explained {
		level = slog.LevelWarn
	}
	l.log.Log(l.life, level, "etcd gives the proxy no lease; it is tried again", "cause", err)
	l.explained, l.trouble = true, err
}

// why is the reason for which there is no lease.
func (l *etcdLocker) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trouble
}

// current is the proxy's lease. It waits for one for the time of a request.
func (l *etcdLocker) current(ctx context.Context) (*etcdLease, error) {
	timeout := time.NewTimer(l.settings.RequestTimeout)
	defer timeout.Stop()
	for {
		l.mu.Lock()
		lease, leased := l.lease, l.leased
		l.mu.Unlock()
		if lease != nil {
			return lease, context.Cause(l.life)
		}
		select {
		case <-leased:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a lease of etcd: %w", ctx.Err())
		case <-l.life.Done():
			return nil, context.Cause(l.life)
		case <-timeout.C:
			return nil, fmt.Errorf("etcd gives the proxy no lease: %w", l.why())
		}
	}
}
