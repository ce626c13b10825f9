package harness_test

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestAZooKeeperServesAgainAfterARestart(t *testing.T) {
	z := harness.StartZooKeeper(t)
	if mode := z.Mode(); mode != "standalone" {
		t.Fatalf("a server on its own is %q", mode)
	}
	z.Restart()
	if mode := z.Mode(); mode != "standalone" {
		t.Fatalf("after a restart it is %q", mode)
	}
}

func TestAnEnsembleElectsAnotherLeader(t *testing.T) {
	ensemble := harness.StartZooKeeperEnsemble(t, 3)
	first := ensemble.Leader()
	first.Kill()
	if next := ensemble.Leader(); next == first {
		t.Fatal("the server that was killed leads")
	}
	first.Start()
	if mode := first.Mode(); mode != "follower" {
		t.Fatalf("the old leader is %q when it is back", mode)
	}
}
