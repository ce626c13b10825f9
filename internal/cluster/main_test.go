//go:build integration

package cluster_test

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
