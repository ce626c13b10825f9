// Package podtest has the life of a pod with the sidecar as tests that need nothing but the pod: the same for one that the
// webhook's own code has made, and for one that a real API server has answered with.
package podtest
