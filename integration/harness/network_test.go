package harness_test

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestANetworkBreaksAsAWhole(t *testing.T) {
	servers := []*harness.Redis{harness.StartRedis(t), harness.StartRedis(t)}
	network := harness.StartNetwork(t, []string{servers[0].Addr, servers[1].Addr})
	talk := func() (conns []*harness.RawConn) {
		t.Helper()
		for _, addr := range network.Addrs() {
			conn := harness.Dial(t, addr)
			conn.Do("PING")
			conns = append(conns, conn)
		}
		return conns
	}
	conns := talk()
	if open, trips := network.Open(), network.RoundTrips(); open != 2 || trips != 2 {
		t.Errorf("%d connections, %d round trips; want 2 and 2", open, trips)
	}
	network.Cut()
	for _, conn := range conns {
		if _, err := conn.Read(); err == nil {
			t.Error("a connection outlives a cut")
		}
	}
	harness.Eventually(t, 0, func() bool { return network.Open() == 0 }, "all connections are closed")
	network.Restore()

	conns = talk()
	network.Blackhole(true)
	answered := make(chan error, len(conns))
	for _, conn := range conns {
		if _, err := conn.Write([]byte(harness.Encode("PING"))); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := conn.Read()
			answered <- err
		}()
	}
	select {
	case err := <-answered:
		t.Errorf("an answer comes out of a black hole: %v", err)
	default:
	}
	network.Blackhole(false)
	for range conns {
		if err := <-answered; err != nil {
			t.Errorf("what was kept back is lost: %v", err)
		}
	}
}
