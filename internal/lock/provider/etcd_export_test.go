package provider

import "context"

// EtcdLine is what the keys of a session's places begin with.
var EtcdLine = etcdLine

// EtcdPlace is a place in line, step by step.
type EtcdPlace struct{ place *etcdPlace }

// NewEtcdPlace makes up a place for a Locker of etcd.
func NewEtcdPlace(ctx context.Context, l Locker, r Request) (EtcdPlace, error) {
	lease, err := l.(*etcdLocker).current(ctx)
	if err != nil {
		return EtcdPlace{}, err
	}
	return EtcdPlace{lease.place(r)}, nil
}

// Forget is the place as it was before it was entered.
func (p EtcdPlace) Forget() EtcdPlace {
	copied := *p.place
	copied.revision = 0
	return EtcdPlace{&copied}
}

// Enter asks once, and returns the grant.
func (p EtcdPlace) Enter(ctx context.Context) (int64, error) {
	_, err := p.place.tryToEnter(ctx)
	return p.place.revision, err
}

// Leave asks once.
func (p EtcdPlace) Leave(ctx context.Context) error { return p.place.remove(ctx) }
