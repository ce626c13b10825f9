package harness_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestAgentSpeaksForItself(t *testing.T) {
	server := harness.StartRedis(t)
	agent := harness.StartAgent(t, server.Addr)
	value := "any\x00byte\xff\r\n"
	if reply, err := agent.Do("SET", "k", value); reply != "OK" || err != nil {
		t.Errorf("SET: %v, %v", reply, err)
	}
	if reply, err := agent.Do("GET", "k"); reply != value || err != nil {
		t.Errorf("GET: %q, %v", reply, err)
	}
	if reply, err := agent.Do("GET", "none"); reply != nil || err != nil {
		t.Errorf("GET of a missing key: %v, %v", reply, err)
	}
	var refusal harness.ReplyError
	if _, err := agent.Do("INCR", "k"); !errors.As(err, &refusal) {
		t.Errorf("INCR of a text: %v, want an error reply", err)
	}
}

func TestFrozenAgentGoesOnWhenItResumes(t *testing.T) {
	server := harness.StartRedis(t)
	agent := harness.StartAgent(t, server.Addr)
	if _, err := agent.Do("GET", "k"); err != nil {
		t.Fatal(err)
	}
	agent.Pause()
	late := agent.DoAsync("SET", "k", "late")
	if err := server.Client().Set(t.Context(), "k", "early", 0).Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-late:
		t.Fatalf("a frozen agent answered: %v", r)
	case <-time.After(30 * time.Millisecond):
	}
	agent.Resume()
	if r := <-late; r.Reply != "OK" || r.Err != nil {
		t.Errorf("SET: %v", r)
	}
	if reply, err := agent.Do("GET", "k"); reply != "late" || err != nil {
		t.Errorf("GET: %v, %v", reply, err)
	}
}

func TestKilledAgentAnswersWithAnErrorAndItsConnectionCloses(t *testing.T) {
	server := harness.StartRedis(t)
	relay := harness.StartRelay(t, server.Addr)
	agent := harness.StartAgent(t, relay.Addr)
	if _, err := agent.Do("PING"); err != nil {
		t.Fatal(err)
	}
	agent.Pause() // a frozen process can be killed, too
	agent.Kill()
	if reply, err := agent.Do("PING"); err == nil {
		t.Errorf("a killed agent answered %v", reply)
	}
	harness.Eventually(t, 0, func() bool { return !relay.Connections()[0].Open }, "the dead agent's connection closes")
}

func TestAgentReportsABrokenConnection(t *testing.T) {
	server := harness.StartRedis(t)
	agent := harness.StartAgent(t, server.Addr)
	if _, err := agent.Do("PING"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	var refusal harness.ReplyError
	if reply, err := agent.Do("PING"); err == nil || errors.As(err, &refusal) {
		t.Errorf("got %v, %v, want the connection's error", reply, err)
	}
}
