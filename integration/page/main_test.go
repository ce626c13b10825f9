//go:build integration

// Package page tries the status page in a real Chromium, before a proxy in which real clients contend on a real Redis.
//
//	page_test.go ──orders, as JSON lines──▶ browser/browser.js ──▶ Chromium ──▶ the proxy's admin address
//	             ◀───────answers──────────╯
package page

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
