package harness_test

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestACollapsedClusterOfEtcdComesBackWithItsLeaderElected(t *testing.T) {
	e := harness.StartEtcd(t, 3)
	first := e.Leader()
	if first.Metric("etcd_server_is_leader") != 1 {
		t.Error("the leader does not know it")
	}
	first.Kill()
	second := e.Leader()
	if second == first {
		t.Error("a killed member leads")
	}
	e.Stop()
	e.Start()
	e.Start() // what runs goes on
	third := e.Leader()
	pid := third.Pid()
	e.Pause()
	e.Resume()
	harness.Eventually(t, 0, func() bool { return e.Leader().Metric("etcd_server_has_leader") == 1 }, "it serves after a pause")
	if third.Pid() != pid {
		t.Error("a pause restarts a member")
	}
}
