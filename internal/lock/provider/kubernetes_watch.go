package provider

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// watch sees all Leases of the prefix, over one connection, until the locker closes. Everything works without it, but waits
// take longer: they look by themselves now and then.
func (k *kubeLocker) watch() {
	selector := kubePrefixLabel + "=" + k.Prefix
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // it may be many, and nobody waits for it
			defer cancel()
			return k.leases.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			stream, err := k.leases.Watch(ctx, options)
			if err == nil && reflect.TypeOf(stream) == reflect.TypeOf(watch.NewEmptyWatch()) {
				stream, err = nil, io.ErrUnexpectedEOF // client-go keeps to itself that the connection broke
			}
			k.noteWatch(err)
			return stream, err
		},
	}
	log := logr.FromSlogHandler(k.log.Handler())
	reflector := cache.NewReflectorWithOptions(source, &coordination.Lease{}, kubeWatched{k}, cache.ReflectorOptions{
		Logger: &log, Name: "leases",
		Backoff: &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 3 * time.Second},
	})
	ctx := klog.NewContext(k.life, log)
	for pause := time.Duration(0); k.life.Err() == nil; pause = min(2*pause+100*time.Millisecond, 3*time.Second) {
		started := time.Now()
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			k.noteWatch(err)
		}
		if time.Since(started) > time.Minute {
			pause = 0
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		case <-k.life.Done():
		}
	}
}

// noteWatch remembers how the watch is, and logs what is wrong with it, the same thing once a minute.
func (k *kubeLocker) noteWatch(err error) {
	if request := (*url.Error)(nil); errors.As(err, &request) {
		err = request.Err // without the address, which is another one for each attempt
	}
	k.mu.Lock()
	k.watching = err
	select {
	case <-k.begun:
	default:
		close(k.begun)
	}
	news := err != nil && k.life.Err() == nil && (err.Error() != k.warned || time.Since(k.warnedAt) > time.Minute)
	if news {
		k.warned, k.warnedAt = err.Error(), time.Now()
	}
	k.mu.Unlock()
	if news {
		k.log.Warn("can't watch Leases, so waiters hear late; it is tried again", "error", err)
	}
}

// kubeWatched is the locker as the reflector knows it.
type kubeWatched struct{ *kubeLocker }

func (w kubeWatched) Add(object any) error    { return w.see(object.(*coordination.Lease)) }
func (w kubeWatched) Update(object any) error { return w.Add(object) }
func (w kubeWatched) Resync() error           { return nil }

func (w kubeWatched) Delete(object any) error {
	lease := object.(*coordination.Lease)
	version, err := kubeGrant(lease.ResourceVersion) // that of the deletion
	if err == nil {
		w.gone(lease.Name, version)
	}
	return err
}

// Replace has all Leases as they were at a version.
func (w kubeWatched) Replace(objects []any, at string) error {
	version, err := kubeGrant(at)
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for _, object := range objects {
		lease := object.(*coordination.Lease)
		listed[lease.Name] = true
		if err := w.see(lease.DeepCopy()); err != nil { // it keeps nothing of the list
			return err
		}
	}
	w.mu.Lock()
	names := slices.Collect(maps.Keys(w.sessions))
	w.mu.Unlock()
	for _, name := range names {
		if !listed[name] {
			w.gone(name, version)
		}
	}
	return nil
}
