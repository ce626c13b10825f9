package app

import (
	"errors"
	"testing"
)

// Health is served before clients are, and says so: an agent starts when its proxy is ready.
func TestAProxyThatDoesNotListenYetIsNotReady(t *testing.T) {
	if err := new(Proxy).ready(t.Context()); !errors.Is(err, errStarting) {
		t.Errorf("ready: %v", err)
	}
}
