//go:build integration

package monitoring

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
