package harness_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestRelayMakesARoundTripLongerByItsDelay(t *testing.T) {
	const delay = 40 * time.Millisecond
	server := harness.StartRedis(t)
	conn := harness.Dial(t, harness.StartRelay(t, server.Addr, harness.WithDelay(delay)).Addr)
	fastest := time.Hour
	for range 5 {
		start := time.Now()
		conn.Do("PING")
		took := time.Since(start)
		if took < delay {
			t.Errorf("a round trip took %v, less than the delay of %v", took, delay)
		}
		fastest = min(fastest, took)
	}
	if fastest > 2*delay {
		t.Errorf("the fastest round trip took %v, with a delay of %v", fastest, delay)
	}
}

// A relay that slept for each piece that it reads would need a second for every
// 16 of these commands, sent one after the other.
func TestDelayCostsNoThroughput(t *testing.T) {
	const commands, delay = 2000, 100 * time.Millisecond
	server := harness.StartRedis(t)
	conn := harness.Dial(t, harness.StartRelay(t, server.Addr, harness.WithDelay(delay)).Addr)
	value := strings.Repeat("x", 8<<10)
	start := time.Now()
	sent := make(chan error, 1)
	go func() {
		for range commands {
			if _, err := conn.Write([]byte(harness.Encode("ECHO", value))); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for range commands {
		conn.ReadReply()
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("%d commands took %v", commands, took)
	}
}

func TestRoundTripsAreWhatAClientWaitsFor(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr, harness.WithCapture())
	first, second := harness.Dial(t, relay.Addr), harness.Dial(t, relay.Addr)
	first.Do("SET", "k", strings.Repeat("long", 1<<20)) // many pieces, and so are its replies
	second.Do("PING")
	first.Send("GET k\r\nGET k\r\nGET k\r\n")
	for range 3 {
		first.ReadReply()
	}
	first.Do("PING")

	connections := relay.Connections()
	if len(connections) != 2 {
		t.Fatalf("%d connections, want 2", len(connections))
	}
	got := []int{connections[0].RoundTrips, connections[1].RoundTrips, relay.RoundTrips()}
	// Accepted in either order.
	if got[0] < got[1] {
		got[0], got[1] = got[1], got[0]
		connections[0], connections[1] = connections[1], connections[0]
	}
	if got[0] != 3 || got[1] != 1 || got[2] != 4 {
		t.Errorf("round trips (first, second, all) are %v, want [3 1 4]", got)
	}
	if sent := string(connections[1].Bytes[harness.ToServer]); sent != harness.Encode("PING") {
		t.Errorf("captured to the server: %q", sent)
	}
	if received := string(connections[1].Bytes[harness.ToClient]); received != "+PONG\r\n" {
		t.Errorf("captured to the client: %q", received)
	}
}

func TestCutRefusesUntilRestored(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	conn := harness.Dial(t, relay.Addr)
	conn.Do("PING")
	relay.Cut()
	conn.ExpectClosed()
	if c, err := net.Dial("tcp", relay.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connected to a cut relay (%v, %v)", c, err)
	}
	if relay.Connections()[0].Open {
		t.Error("the connection counts as open")
	}
	relay.Restore()
	harness.Dial(t, relay.Addr).Do("PING")
}

func TestBlackholeHoldsBackAndLetsOut(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	conn := harness.Dial(t, relay.Addr)
	conn.Do("PING")
	relay.Blackhole(true)
	fresh := harness.Dial(t, relay.Addr)
	for _, c := range []*harness.RawConn{conn, fresh} {
		c.Send("PING\r\n")
		c.ExpectSilence(30 * time.Millisecond)
	}
	relay.Blackhole(false)
	for _, c := range []*harness.RawConn{conn, fresh} {
		if got := c.ReadReply(); string(got) != "+PONG\r\n" {
			t.Errorf("got %q", got)
		}
	}
}

func TestClosingABlackholedRelayDoesNotHang(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	conn := harness.Dial(t, relay.Addr)
	conn.Do("PING")
	relay.Blackhole(true)
	conn.Send("PING\r\n")
	relay.Close()
	conn.ExpectClosed()
}

func TestCutAfterBytesLosesTheReplyAndNotTheCommand(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	conn, other := harness.Dial(t, relay.Addr), harness.Dial(t, relay.Addr)
	other.Do("PING")
	cut := relay.CutAfterBytes(harness.ToClient, len("+O"))
	conn.Send(harness.Encode("SET", "k", "v"))
	if raw, err := conn.Read(); err == nil || string(raw) != "+O" {
		t.Errorf("got %q (%v), want the first two bytes of the reply", raw, err)
	}
	<-cut
	if got := other.Do("GET", "k"); string(got) != "$1\r\nv\r\n" {
		t.Errorf("the value is %q", got)
	}
}

func TestCutAfterBytesKeepsACommandFromTheServer(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	command := harness.Encode("SET", "k", "v")
	cut := relay.CutAfterBytes(harness.ToServer, len(command)-1)
	conn := harness.Dial(t, relay.Addr)
	conn.Send(command)
	<-cut
	conn.ExpectClosed()
	if got := harness.Dial(t, relay.Addr).Do("EXISTS", "k"); string(got) != ":0\r\n" {
		t.Errorf("EXISTS: %q", got)
	}
}

func TestEndOfAConnectionPassesThroughARelay(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	conn := harness.Dial(t, relay.Addr)
	conn.Do("QUIT")
	conn.ExpectClosed()
	_ = conn.Close()
	harness.Eventually(t, 0, func() bool { return !relay.Connections()[0].Open }, "the relay's link ends")
}

func TestHauntAfterBytesDeliversLateWhatTheClientTookForLost(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	command := harness.Encode("SET", "k", "v")
	cut, deliver := relay.HauntAfterBytes(len(command) - 1)
	conn := harness.Dial(t, relay.Addr)
	conn.Send(command)
	<-cut
	conn.ExpectClosed()
	direct := harness.Dial(t, server.Addr)
	if got := direct.Do("EXISTS", "k"); string(got) != ":0\r\n" {
		t.Errorf("EXISTS before it is delivered: %q", got)
	}
	deliver()
	harness.Eventually(t, 0, func() bool { return string(direct.Do("EXISTS", "k")) == ":1\r\n" }, "it is carried out")
	harness.Eventually(t, 0, func() bool { return !relay.Connections()[0].Open }, "the relay's link ends")
}

func TestARelayCanBecomeSlowAndQuickAgain(t *testing.T) {
	const delay = 60 * time.Millisecond
	relay := harness.StartRelay(t, harness.StartRedis(t).Addr)
	conn := harness.Dial(t, relay.Addr)
	relay.Slow(delay)
	start := time.Now()
	conn.Do("PING")
	if took := time.Since(start); took < delay {
		t.Errorf("a round trip took %v, less than the delay of %v", took, delay)
	}
	relay.Slow(0)
	fastest := time.Hour
	for range 20 {
		start = time.Now()
		conn.Do("PING")
		fastest = min(fastest, time.Since(start))
	}
	if fastest >= delay {
		t.Errorf("the fastest round trip took %v without a delay", fastest)
	}
}

func TestARelayThrottlesAndLosesNothing(t *testing.T) {
	const rate, size = 20_000, 6_000
	relay := harness.StartRelay(t, harness.StartRedis(t).Addr)
	conn := harness.Dial(t, relay.Addr)
	relay.Throttle(rate)
	start := time.Now()
	want := strings.Repeat("x", size)
	if got, err := harness.Decode(conn.Do("ECHO", want)); err != nil || got != want {
		t.Errorf("%d bytes came back as %.100v, %v", size, got, err)
	}
	if took, least := time.Since(start), 2*size*time.Second/rate; took < least {
		t.Errorf("%d bytes there and back took %v, less than %v", size, took, least)
	}
}

func TestAResetIsHeardAtBothEnds(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	conn := harness.Dial(t, relay.Addr)
	conn.Do("PING")
	relay.Reset()
	if _, err := conn.Read(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client heard %v", err)
	}
	harness.Eventually(t, 0, func() bool { return !relay.Connections()[0].Open }, "the link has ended")
	again := harness.Dial(t, relay.Addr)
	if got := string(again.Do("PING")); got != "+PONG\r\n" {
		t.Errorf("a new connection hears %q", got)
	}
}

func TestARelayWithoutPastForgetsWhoHasGone(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr, harness.WithoutPast())
	stays := harness.Dial(t, relay.Addr)
	stays.Do("PING")
	for range 3 {
		goes := harness.Dial(t, relay.Addr)
		goes.Do("PING")
		_ = goes.Close()
	}
	harness.Eventually(t, 0, func() bool { return len(relay.Connections()) == 1 }, "only the open connection is known")
	stays.Do("PING")
	relay.Reset()
	stays.ExpectClosed()
	harness.Eventually(t, 0, func() bool { return len(relay.Connections()) == 0 }, "none is known")
}
