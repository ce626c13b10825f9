package provider

import (
	"fmt"
	"sync/atomic"
	"time"
)

var kubeProxies atomic.Int64

// NewKubernetesProxy is a proxy's id that no other has.
func NewKubernetesProxy() string { return fmt.Sprintf("proxy%d", kubeProxies.Add(1)) }

// SetKubernetesTurn says how long the first in line has. Call it before the Locker is used.
func SetKubernetesTurn(l Locker, turn time.Duration) { l.(*kubeLocker).turn = turn }

// KubernetesLeases is how many Leases the Locker knows.
func KubernetesLeases(l Locker) int {
	k := l.(*kubeLocker)
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, s := range k.sessions {
		if s.sight.lease != nil {
			n++
		}
	}
	return n
}

// KubernetesLeaseName is the name of a session's Lease.
func KubernetesLeaseName(session string) string { return kubeLeaseName("fence-proxy", session) }

// OutdateKubernetes makes the Locker believe that it has seen a later version of a session's Lease.
func OutdateKubernetes(l Locker, session string) {
	k := l.(*kubeLocker)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions[KubernetesLeaseName(session)].sight.version += 1000
}

// KubernetesWaiters is how many wait for a session in the Locker.
func KubernetesWaiters(l Locker, session string) int {
	k := l.(*kubeLocker)
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.sessions[KubernetesLeaseName(session)]; s != nil {
		return len(s.waiters)
	}
	return 0
}
