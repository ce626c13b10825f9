package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

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
		trouble = l.renew(min(left, l.ttl/4))
		switch {
		case trouble == nil:
			next = l.ttl / 3
		case passing(trouble):
			next = min(l.ttl/30, max(time.Until(l.Until()), 0))
		default:
			return trouble
		}
	}
}

// renew renews the lease once. (The library's KeepAlive does not tell when it has asked, and its KeepAliveOnce asks again without
// a pause while nobody is there.)
func (l *etcdLease) renew(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(l.life, timeout)
	defer cancel()
	asked := time.Now()
	stream, err := clientv3.RetryLeaseClient(l.client).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(l.id)}); err != nil {
		return err
	}
	reply, err := stream.Recv()
	if err != nil {
		return err
	}
	if reply.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() == nil {
		l.until = asked.Add(time.Duration(reply.TTL) * time.Second)
	}
	return nil
}
