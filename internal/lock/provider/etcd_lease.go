package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var errEtcdSilent = errors.New("it did not answer in time")

// etcdLease is a lease of the proxy. It begins when etcd has given it, is renewed at a third of its time, and is over for good when that
// did not succeed in time, when etcd does not know it any more, or when the Locker closes.
type etcdLease struct {
	locker *etcdLocker
	client *clientv3.Client
	id     clientv3.LeaseID
	ttl    time.Duration

	life context.Context // ends, with its cause, when the lease is over; within the Locker's
	end  context.CancelCauseFunc

	mu    sync.Mutex
	until time.Time // never later than the lease's end at etcd
}

func newEtcdLease(l *etcdLocker, client *clientv3.Client, id clientv3.LeaseID, asked time.Time, ttl time.Duration) *etcdLease {
	lease := &etcdLease{locker: l, client: client, id: id, ttl: ttl, until: asked.Add(ttl)}
	lease.life, lease.end = context.WithCancelCause(l.life)
	return lease
}

// Until is when the lease ends unless it is renewed.
func (l *etcdLease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// stands says whether places that are bound to the lease count.
func (l *etcdLease) stands() bool {
	return l.life.Err() == nil && time.Now().Before(l.Until())
}

// over ends the lease here.
func (l *etcdLease) over(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Before(l.until) {
		l.until = now
	}
	l.end(cause)
}

// keep renews the lease until it is over, and says why it is.
func (l *etcdLease) keep() error {
	beat := &etcdBeat{lease: l}
	defer beat.close()
	next, trouble := l.ttl/3, error(nil)
	for {
		select {
		case <-l.life.Done():
			return context.Cause(l.life)
		case <-time.After(next):
		}
		left := time.Until(l.Until())
		if left <= 0 {
			return fmt.Errorf("it was not renewed in %v: %w", l.ttl, trouble)
		}
		asked := time.Now()
		ttl, err := beat.ask(min(left, l.ttl/4))
		switch {
		case err == nil:
			l.extend(asked.Add(ttl))
			next = l.ttl / 3
		case passing(err):
			next, trouble = min(l.ttl/30, max(time.Until(l.Until()), 0)), err
		default:
			return err
		}
	}
}

// extend notes that the lease was renewed, unless that comes too late.
func (l *etcdLease) extend(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() == nil {
		l.until = until
	}
}

// etcdBeat renews a lease over a stream of its own, one question at a time. (Of the library's ways, KeepAlive does not tell when it has
// asked, and KeepAliveOnce opens a stream, and logs in, each time.)
type etcdBeat struct {
	lease  *etcdLease
	stream pb.Lease_LeaseKeepAliveClient // nil while there is none
	end    context.CancelFunc            // of the stream
}

// ask asks for another term, and returns how long it is.
func (b *etcdBeat) ask(timeout time.Duration) (time.Duration, error) {
	if b.stream == nil {
		if err := b.open(timeout); err != nil {
			return 0, err
		}
	}
	alarm := time.AfterFunc(timeout, b.end)
	err := b.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(b.lease.id)})
	var reply *pb.LeaseKeepAliveResponse
	if err == nil || errors.Is(err, io.EOF) { // the stream's own error comes with the answer
		reply, err = b.stream.Recv()
	}
	rang := !alarm.Stop()
	if rang || err != nil {
		b.close() // the answer may still come, and would be taken for the next one
	}
	switch {
	case err != nil && rang:
		return 0, errEtcdSilent
	case err != nil:
		return 0, err
	case reply.TTL <= 0:
		return 0, rpctypes.ErrLeaseNotFound
	}
	return time.Duration(reply.TTL) * time.Second, nil
}

func (b *etcdBeat) open(timeout time.Duration) (err error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(b.lease.life))
	alarm := time.AfterFunc(timeout, cancel)
	b.stream, err = clientv3.RetryLeaseClient(b.lease.client).LeaseKeepAlive(ctx)
	if !alarm.Stop() {
		err = errEtcdSilent
	}
	if err != nil {
		cancel()
		b.stream = nil
		return err
	}
	b.end = cancel
	return nil
}

func (b *etcdBeat) close() {
	if b.stream != nil {
		b.end()
		b.stream = nil
	}
}
