package provider

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sweep deletes the Leases that nobody has held or touched for as long as they are kept, until the locker closes. All proxies do;
// who finds a Lease deleted or changed lets it be.
func (k *kubeLocker) sweep() {
	for {
		select {
		case <-time.After(k.Keep/8 + rand.N(k.Keep/8)):
		case <-k.life.Done():
			return
		}
		for _, sight := range k.unused() {
			if err := k.remove(sight); err != nil && k.life.Err() == nil {
				k.log.Warn("can't delete a Lease that is out of use; it is tried again", "lease", sight.lease.Name, "error", err)
				break
			}
		}
	}
}

// unused are the Leases that nobody has held for as long as they are kept.
func (k *kubeLocker) unused() []kubeSight {
	k.mu.Lock()
	defer k.mu.Unlock()
	var unused []kubeSight
	for _, s := range k.sessions {
		over := s.sight.since
		if s.sight.holder() != "" {
			over = over.Add(s.sight.duration())
		}
		if s.sight.lease != nil && s.hold == nil && len(s.waiters) == 0 && time.Since(over) >= k.Keep {
			unused = append(unused, s.sight)
		}
	}
	return unused
}

// remove deletes a Lease that is still as it was seen.
func (k *kubeLocker) remove(sight kubeSight) error {
	ctx, cancel := k.brief(k.life, k.Keep)
	defer cancel()
	lease := sight.lease
	err := k.leases.Delete(ctx, lease.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	})
	switch {
	case err == nil || errors.IsNotFound(err):
		k.gone(lease.Name, sight.version)
		return nil
	case errors.IsConflict(err):
		return nil
	default:
		return err
	}
}
