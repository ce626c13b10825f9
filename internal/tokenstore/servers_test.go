//go:build !integration

package tokenstore_test

import "testing"

// servers are the stores that every test runs on: here the one that fence-proxy has built in. With
// the integration tag a real redis-server joins it.
func servers() map[string]func(*testing.T) string {
	return map[string]func(*testing.T) string{"embedded": startEmbedded}
}
