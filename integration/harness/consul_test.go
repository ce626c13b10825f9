package harness_test

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestConsulStartsAgainAfterAKill(t *testing.T) {
	c := harness.StartConsul(t)
	pid := c.Pid()
	c.Kill()
	c.Start()
	if c.Pid() == pid {
		t.Error("the same process is back")
	}
}
