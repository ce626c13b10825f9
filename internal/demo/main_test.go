package demo_test

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis remarks on connections that are closed in use
	harness.Main(m)
}
