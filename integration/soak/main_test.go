//go:build integration

package soak

import (
	"fmt"
	"os"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestMain(m *testing.M) {
	if gauge := os.Getenv(gaugeEnv); gauge != "" { // --config FILE
		fmt.Fprintln(os.Stderr, runSubject(os.Args[len(os.Args)-1], gauge))
		os.Exit(1)
	}
	harness.Main(m)
}
