package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kubernetes keeps locks in Lease objects (coordination.k8s.io/v1) of one namespace, one for each session. Its settings are
// KubernetesSettings; docs/kubernetes-rbac.yaml has the rights that it needs.
//
// A hold is the Lease's holderIdentity, which is another one for each hold. Every change is an update that names the
// resourceVersion that it was made from, so of two changes one is refused, and looks again:
//
//	take     put the holder in; nobody else's update or creation comes between
//	wait     enter the line, a note in the Lease; one watch shows the proxy all Leases
//	pass on  one update releases, and takes for the next one in this proxy if no other proxy waits
//	release  take the holder out
//
// The grant is the resourceVersion of the update that took the Lease.
//
// # Grants
//
// resourceVersions are revisions of the API server's store, etcd's: one counter for all writes, so a Lease that was deleted and made
// again goes on above. That those of one resource can be compared as numbers is promised by the API from Kubernetes 1.35 on (KEP-5504,
// "Comparable Resource Version"); before, it is so wherever objects are kept in etcd, or in kine. One that is no
// number below 2^53 is refused. An etcd that was restored from a backup counts on from there: the fence store
// refuses such grants until they are above its own.
//
// # Order
//
// Waiters of one proxy are served first come first served. Proxies take turns: one that waits enters the line, and the one that
// releases goes to the end of it if it has more waiters. Who is first in line has a second to take a Lease that is
// free; then the next may.
//
// # Loss
//
// No clock of others counts, nor does renewTime: a Lease is over when this process has seen no renewal for as long as the
// Lease says, in whole seconds. So a proxy that has just started waits for a whole lease behind one that was killed. An
// operator ends a hold by deleting the Lease; the watch tells.
//
// # When answers are lost
//
// An update whose answer was lost is sent once more, and then the holder tells whether the first one was carried out. An identity is used
// for one version of a Lease only; what stands in a Lease of this process and nobody here believes in is taken out.
var Kubernetes = Kind{Name: "kubernetes", Settings: newKubernetesSettings, Open: openKubernetes}

var errKubeClosed = errors.New("the lock provider was closed")

// kubeLocker is the Locker.
type kubeLocker struct {
	*KubernetesSettings
	leases   leaseClient
	hangUp   func() // closes idle connections
	log      *slog.Logger
	me       string        // in lines
	instance string        // what all identities of this process begin with
	turn     time.Duration // how long the first in line has for taking a Lease that is free, before the next may

	life  context.Context // of the tasks; ends when Close is done with waiting
	end   context.CancelFunc
	tasks sync.WaitGroup // the watch, the sweep, and what tidies up

	open   context.Context // ends when Close is called; of the waiters
	close  context.CancelFunc
	asking sync.WaitGroup // Acquires

	mu       sync.Mutex              // guards all below, and what belongs to the sessions: sights, waiters, holds
	sessions map[string]*kubeSession // by the name of the Lease; those that exist, or that somebody here wants
	made     uint64                  // identities so far
	alive    map[string]bool         // identities that somebody here believes in or asks with
	begun    chan struct{}           // closed when the watch has been tried
	watching error                   // why it is broken; nil while it isn't
	warned   string                  // what was logged about it last
	warnedAt time.Time
}

func openKubernetes(s Settings, env Environment) (Locker, error) {
	settings := s.(*KubernetesSettings)
	k := &kubeLocker{
		KubernetesSettings: settings,
		log:                env.Log.With("provider", "kubernetes"),
		me:                 env.Proxy,
		instance:           newKubeInstance(env.Proxy),
		turn:               time.Second,
		sessions:           map[string]*kubeSession{},
		alive:              map[string]bool{},
		begun:              make(chan struct{}),
	}
	var err error
	if k.leases, k.hangUp, err = newLeaseClient(settings); err != nil {
		return nil, fmt.Errorf("use Kubernetes: %w", err)
	}
	k.life, k.end = context.WithCancel(context.Background())
	k.open, k.close = context.WithCancel(context.Background())
	k.tasks.Go(k.watch)
	k.tasks.Go(k.sweep)
	return k, nil
}

// kubeWaiter is one Acquire under way.
type kubeWaiter struct {
	Request
	session *kubeSession
	first   chan struct{} // closed when it is the first of its session in this process

	identity string    // what it asks with, "" at first
	version  uint64    // of the Lease that it asks to change
	asked    time.Time // when it began to ask with this identity
	unknown  bool      // whether what became of its last question is unknown
}

// fresh says whether a hold that was asked for then still has most of its lease.
func (w *kubeWaiter) fresh(now time.Time) bool { return now.Before(w.asked.Add(w.Lease / 2)) }

// Acquire implements Locker. A wait goes on while the API server can't be asked.
func (k *kubeLocker) Acquire(ctx context.Context, r Request) (Hold, error) {
	w, err := k.enter(r)
	if err == nil {
		var h *kubeHold
		h, err = k.await(ctx, w)
		k.leave(w)
		if err == nil {
			return h, nil
		}
	}
	return nil, fmt.Errorf("acquire a Lease: %w", err)
}

// await asks for the session until it is granted.
func (k *kubeLocker) await(ctx context.Context, w *kubeWaiter) (*kubeHold, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(k.open, func() { cancel(errKubeClosed) })()
	select {
	case <-w.first:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	doubt := newKubeDoubt()
	for {
		h, step := k.next(w)
		if h != nil {
			return h, nil
		}
		if step.write != nil {
			if _, err := k.put(ctx, step.write, step.version, w.Lease); err != nil {
				w.unknown = kubeUnknown(err)
				return nil, cmp.Or(context.Cause(ctx), err)
			}
			continue
		}
		timer.Reset(min(time.Until(step.until), doubt.left()))
		select {
		case <-step.changed:
		case <-timer.C:
			if doubt.left() <= 0 {
				_ = k.look(ctx, w.session.name, step.version, w.Lease) // it is asked again
				doubt.again()
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// kubeStep is what a waiter does next.
type kubeStep struct {
	write   *coordination.Lease // to be stored in place of that version; nil: wait
	version uint64
	until   time.Time       // for so long,
	changed <-chan struct{} // or until the Lease has changed
}

// next decides by what is known of the Lease. It returns the hold when the waiter was granted.
func (k *kubeLocker) next(w *kubeWaiter) (*kubeHold, kubeStep) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, s := time.Now(), w.session
	sight, holder := s.sight, s.sight.holder()
	if holder == w.identity && holder != "" {
		if w.fresh(now) {
			return k.grant(w), kubeStep{}
		}
		return nil, k.take(w, now, sight.line()) // the answer came late: once more, for the whole lease
	}

	// What was given up here may be taken though nobody has heard of that yet.
	mine := k.mine(holder)
	held := holder != "" && (!mine || k.alive[holder])
	turn := sight.since
	if held {
		turn = turn.Add(sight.duration())
	}
	line := sight.line()
	place := slices.Index(line, k.me)
	inLine := place >= 0
	if !inLine {
		place = len(line)
	}
	turn = turn.Add(time.Duration(place) * k.turn)

	switch {
	case sight.lease == nil || !now.Before(turn):
		return nil, k.take(w, now, kubeLineAfter(line, k.me))
	case inLine || held && mine: // who releases it here enters the line
		return nil, kubeStep{version: sight.version, until: turn, changed: s.change()}
	default:
		return nil, kubeStep{version: sight.version, write: sight.withLine(append(line, k.me))}
	}
}

// take is the step that takes the Lease.
func (k *kubeLocker) take(w *kubeWaiter, now time.Time, line []string) kubeStep {
	k.name(w, now)
	return kubeStep{version: w.version, write: k.taken(w, line)}
}

// name gives the waiter the identity that it asks with. While the Lease stays as it is, that stays, too, so that a
// question whose answer was lost can be repeated. For another version it is a new one: should an older question take effect
// after all, nobody believes in that.
func (k *kubeLocker) name(w *kubeWaiter, now time.Time) {
	version := w.session.sight.version
	if w.identity != "" && w.version == version && w.fresh(now) {
		return
	}
	delete(k.alive, w.identity)
	k.made++
	w.identity, w.version, w.asked = fmt.Sprintf("%s-%d", k.instance, k.made), version, now
	k.alive[w.identity] = true
}

// taken is the session's Lease with the waiter as its holder.
func (k *kubeLocker) taken(w *kubeWaiter, line []string) *coordination.Lease {
	lease := w.session.sight.withLine(line)
	lease.Name = w.session.name
	lease.Labels[kubePrefixLabel] = k.Prefix
	lease.Annotations[kubeSessionNote] = kubeText(w.Session)
	lease.Annotations[kubeHolderNote] = kubeText(w.Holder)
	spec, identity, now := &lease.Spec, w.identity, metav1.NowMicro()
	spec.HolderIdentity, spec.AcquireTime, spec.RenewTime = &identity, &now, &now
	spec.LeaseDurationSeconds = kubeSeconds(w.Lease)
	if spec.LeaseTransitions == nil || *spec.LeaseTransitions == math.MaxInt32 {
		spec.LeaseTransitions = new(int32)
	}
	*spec.LeaseTransitions++
	return lease
}

// Check asks whether the proxy may do what it has to do, and makes nothing.
func (k *kubeLocker) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.RequestTimeout)
	defer cancel()
	select {
	case <-k.begun:
	case <-ctx.Done():
		return fmt.Errorf("watch Leases: %w", ctx.Err())
	}
	k.mu.Lock()
	watching := k.watching
	k.mu.Unlock()
	if watching != nil {
		return fmt.Errorf("watch Leases: %w", watching)
	}
	if err := k.probe(ctx); err != nil {
		return fmt.Errorf("ask for Leases: %w", err)
	}
	return nil
}

// Close implements Locker.
func (k *kubeLocker) Close(ctx context.Context) error {
	holds := k.shut()
	failed := make(chan error, len(holds))
	for _, h := range holds {
		go func() { failed <- h.Release(ctx) }()
	}
	var errs []error
	for range holds {
		errs = append(errs, <-failed)
	}
	k.asking.Wait() // they know that it is closed
	errs = append(errs, k.settled(ctx))
	k.mu.Lock()
	k.end()
	k.mu.Unlock()
	k.tasks.Wait()
	k.hangUp()
	return errors.Join(errs...)
}
