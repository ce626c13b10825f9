//go:build integration

package soak

import (
	"fmt"
	"os"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestMain(m *testing.M) {
	if configFile := os.Getenv(configEnv); configFile != "" {
		fmt.Fprintln(os.Stderr, runSubject(configFile, os.Getenv(gaugeEnv)))
		os.Exit(1)
	}
	harness.Main(m)
}
