//go:build integration

package harness

import "testing"

func TestASentinelSetFailsOverAndHeals(t *testing.T) {
	t.Parallel()
	s := StartSentinels(t)
	first := s.Primary()
	if first != s.Nodes[0] || len(s.Replicas()) != 2 {
		t.Fatalf("%s is the primary, with %d replicas", first.Addr, len(s.Replicas()))
	}
	second := s.Failover()
	s.WaitHealthy()
	second.Kill()
	third := s.WaitOther(second)
	second.Restart()
	s.WaitHealthy()
	if third.role() != "master" || second.role() != "slave" {
		t.Errorf("%s, %s", third.role(), second.role())
	}
}

func TestACutReplicaMissesWritesAndAnIsolatedPrimaryIsReplaced(t *testing.T) {
	t.Parallel()
	s := StartSentinels(t, WithSentinelPassword("sentinel"), WithNodeOptions(WithPassword("node"), WithArgs("--masterauth", "node")))
	primary := s.Primary()
	primary.CutReplicas()
	primary.Client().Set(t.Context(), "k", "lost", 0)
	other := s.Failover()
	if got := other.Client().Get(t.Context(), "k").Val(); got != "" {
		t.Errorf("what a cut replica missed is there: %q", got)
	}
	primary.Join()
	s.WaitHealthy()
	other.Isolate()
	third := s.WaitOther(other)
	if other.role() != "master" || third.role() != "master" {
		t.Error("an isolated primary does not know that it was replaced")
	}
	other.Join()
	s.WaitHealthy()
	s.RestartSentinel(0)
	s.WaitHealthy()
}
