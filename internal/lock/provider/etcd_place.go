package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdPlace is one Acquire's place in the line of a session.
//
//	new ── enter ──▶ in line ── wait … ──▶ first: a hold
//	 └───────────────────┴── leave ──▶ gone
type etcdPlace struct {
	lease     *etcdLease
	line      string // what all places of the session begin with
	key, left string
	holder    string

	revision int64 // that has made the place; 0 until that is known
	doubtful bool  // an attempt to enter has had no answer: it may reach etcd later
}

// ahead is who stands before a place.
type ahead struct {
	nearest string // its key, "" if nobody does
	only    bool   // nobody stands before the nearest
	seen    int64  // the revision of etcd at which this was so
}

// errEtcdPlace says that somebody has deleted the place.
var errEtcdPlace = errors.New("the place in line was deleted")

// place makes up a place in a session's line.
func (l *etcdLease) place(r Request) *etcdPlace {
	locker := l.locker
	locker.mu.Lock()
	locker.places++
	name := fmt.Sprintf("%x-%d", int64(l.id), locker.places)
	locker.mu.Unlock()
	line := etcdLine(locker.settings.Prefix, r.Session)
	return &etcdPlace{lease: l, line: line, key: line + name, left: locker.settings.Prefix + "left/" + name, holder: r.Holder}
}

// etcdLine is what all places of a session begin with. No session's is that of another, nor begins with it.
func etcdLine(prefix, session string) string {
	return prefix + "line/" + url.PathEscape(session) + "/"
}

// acquire stands in line until it is the first. errEtcdLease: the lease is over, and the place gone with it.
func (l *etcdLease) acquire(caller context.Context, r Request) (Hold, error) {
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	defer context.AfterFunc(l.life, func() { cancel(context.Cause(l.life)) })()

	p := l.place(r)
	ahead, err := p.enterOrLeave(ctx)
	for err == nil && ahead.nearest != "" {
		if ahead, err = p.wait(ctx, ahead); err != nil {
			p.leave()
		}
	}
	switch {
	case err != nil && caller.Err() != nil:
		return nil, caller.Err()
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errEtcdPlace):
		return nil, errEtcdLease // a new place, perhaps of a new lease
	case err != nil:
		return nil, err
	case !l.stands():
		p.leave()
		return nil, errEtcdLease
	}
	return newEtcdHold(p), nil
}

// enterOrLeave enters the place. If that does not succeed before ctx ends, the place is left as soon as it is known what
// has become of it.
func (p *etcdPlace) enterOrLeave(ctx context.Context) (ahead, error) {
	type result struct {
		ahead
		err error
	}
	entered := make(chan result)
	p.lease.locker.tasks.Go(func() { // Acquire's task is there still
		a, err := p.enter()
		if err != nil {
			p.leave()
		}
		select {
		case entered <- result{a, err}:
		case <-ctx.Done():
			if err == nil {
				p.leave()
			}
		}
	})
	select {
	case r := <-entered:
		return r.ahead, r.err
	case <-ctx.Done():
		return ahead{}, context.Cause(ctx)
	}
}

// enter puts the place at the end of the line.
func (p *etcdPlace) enter() (a ahead, err error) {
	err = p.ask(p.lease.life, func(ctx context.Context) error {
		a, err = p.tryToEnter(ctx)
		return err
	})
	return a, err
}

func (p *etcdPlace) tryToEnter(ctx context.Context) (ahead, error) {
	reply, err := p.lease.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(p.key), "=", 0), clientv3.Compare(clientv3.CreateRevision(p.left), "=", 0)).
		Then(clientv3.OpPut(p.key, p.holder, clientv3.WithLease(p.lease.id)), clientv3.OpGet(p.line, last()...)).
		Else(clientv3.OpGet(p.key)).
		Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		p.lease.locker.withdraw(p.lease, err)
		return ahead{}, errEtcdLease
	case err != nil:
		p.doubtful = true
		return ahead{}, err
	case reply.Succeeded:
		p.revision = reply.Header.Revision
		return p.ahead(reply.Responses[1].GetResponseRange().Kvs, reply.Header.Revision)
	}
	// An attempt before this one has done it.
	own := reply.Responses[0].GetResponseRange().Kvs
	if len(own) == 0 {
		return ahead{}, errEtcdPlace
	}
	p.revision = own[0].CreateRevision
	return p.look(ctx)
}

// last asks for the last three places of a line, the last one first: one's own, the nearest before it, and whether there is another.
func last(options ...clientv3.OpOption) []clientv3.OpOption {
	return append(options, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(3),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))
}

// look reads who is before the place.
func (p *etcdPlace) look(ctx context.Context) (ahead, error) {
	reply, err := p.lease.client.Get(ctx, p.line, last(clientv3.WithMaxCreateRev(p.revision))...)
	if err != nil {
		return ahead{}, err
	}
	return p.ahead(reply.Kvs, reply.Header.Revision)
}

// ahead reads the answer to last.
func (p *etcdPlace) ahead(places []*mvccpb.KeyValue, seen int64) (ahead, error) {
	if len(places) == 0 || string(places[0].Key) != p.key {
		return ahead{}, errEtcdPlace
	}
	a := ahead{seen: seen, only: len(places) == 2}
	if len(places) > 1 {
		a.nearest = string(places[1].Key)
	}
	return a, nil
}

// wait waits until the nearest has gone, and says who is before the place then. Nobody enters the line before others, so
// if the nearest was the only one, nobody is.
func (p *etcdPlace) wait(ctx context.Context, a ahead) (ahead, error) {
	for pause := newPause(); ; {
		gone := p.gone(ctx, a)
		if gone && a.only {
			return ahead{}, nil
		}
		var next ahead
		err := p.ask(ctx, func(ctx context.Context) (err error) {
			next, err = p.look(ctx)
			return err
		})
		switch {
		case err == nil && (gone || next.nearest != a.nearest):
			return next, nil
		case err == nil:
			a = next // the watch has ended, and nothing has happened
		case !passing(err):
			return ahead{}, err
		}
		if !pause.wait(ctx) {
			return ahead{}, context.Cause(ctx)
		}
	}
}

// gone watches the nearest before the place; false means that the watch has ended before it went.
func (p *etcdPlace) gone(ctx context.Context, a ahead) bool {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for reply := range p.lease.client.Watch(ctx, a.nearest, clientv3.WithRev(a.seen+1), clientv3.WithFilterPut()) {
		if reply.Err() != nil {
			return false
		}
		for _, event := range reply.Events {
			if event.Type == clientv3.EventTypeDelete {
				return true
			}
		}
	}
	return false
}

// leave gives the place up, in the background: as long as etcd can't be asked and the lease stands, it is tried again.
func (p *etcdPlace) leave() {
	if !p.lease.locker.begin() {
		return // Close revokes the lease
	}
	go func() {
		defer p.lease.locker.tasks.Done()
		for pause := newPause(); p.remove(p.lease.life) != nil && pause.wait(p.lease.life); {
		}
	}()
}

// remove takes the place out of the line, for good.
func (p *etcdPlace) remove(ctx context.Context) error {
	remove := []clientv3.Op{clientv3.OpDelete(p.key)}
	if p.doubtful {
		remove = append(remove, clientv3.OpPut(p.left, "", clientv3.WithLease(p.lease.id)))
	}
	err := p.ask(ctx, func(ctx context.Context) error {
		_, err := p.lease.client.Txn(ctx).Then(remove...).Commit()
		return err
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // all that was bound to it has gone with it
		return nil
	}
	return err
}

// exists asks etcd for the place.
func (p *etcdPlace) exists(ctx context.Context) (exists bool, err error) {
	err = p.ask(ctx, func(ctx context.Context) error {
		reply, err := p.lease.client.Get(ctx, p.key, clientv3.WithKeysOnly())
		if err == nil {
			exists = len(reply.Kvs) == 1 && reply.Kvs[0].CreateRevision == p.revision
		}
		return err
	})
	return exists, err
}

func (p *etcdPlace) ask(ctx context.Context, question func(ctx context.Context) error) error {
	return p.lease.locker.settings.ask(ctx, question)
}
