//go:build integration

// Package pod runs pods as the webhook makes them, and looks at their life: the first command of an agent, its last one, Jobs,
// and changes of the configuration.
package pod

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
