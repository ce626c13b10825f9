package provider

import (
	"testing"
	"time"
)

func TestRedlockSettingsNameWhatCannotBe(t *testing.T) {
	nodes := []string{"redis://a", "redis://b:6380", "rediss://me:secret@c"}
	for name, c := range map[string]struct {
		edit func(*RedlockSettings)
		want string
	}{
		"all is well":               {func(*RedlockSettings) {}, ""},
		"no nodes":                  {func(s *RedlockSettings) { s.Nodes = nil }, "nodes"},
		"two nodes":                 {func(s *RedlockSettings) { s.Nodes = nodes[:2] }, "nodes"},
		"a node without a scheme":   {func(s *RedlockSettings) { s.Nodes = []string{"redis://a", "b:6379", "redis://c"} }, "nodes[1]"},
		"a socket":                  {func(s *RedlockSettings) { s.Nodes = []string{"redis://a", "unix:///b", "redis://c"} }, "nodes[1]"},
		"a node twice":              {func(s *RedlockSettings) { s.Nodes = []string{"redis://a", "redis://b", "redis://x@a:6379/3"} }, "nodes[2]"},
		"an option in a URL":        {func(s *RedlockSettings) { s.Nodes = []string{"redis://a", "redis://b?read_timeout=1h", "redis://c"} }, "nodes[1]"},
		"a user without password":   {func(s *RedlockSettings) { s.Username = "me" }, "password"},
		"a certificate without key": {func(s *RedlockSettings) { s.TLSCert = "c.pem" }, "tls_cert"},
		"an authority for nobody":   {func(s *RedlockSettings) { s.TLSCA, s.Nodes = "ca.pem", []string{"redis://a", "redis://b", "redis://c"} }, "nodes"},
		"no prefix":                 {func(s *RedlockSettings) { s.Prefix = "" }, "prefix"},
		"no time for a node":        {func(s *RedlockSettings) { s.NodeTimeout = 0 }, "node_timeout"},
		"more drift than lease":     {func(s *RedlockSettings) { s.DriftPercent = 100 }, "drift_percent"},
		"no backoff":                {func(s *RedlockSettings) { s.BackoffMin = 0 }, "backoff_min"},
		"a backoff that shrinks":    {func(s *RedlockSettings) { s.BackoffMax = time.Millisecond }, "backoff_max"},
		"a delay in the past":       {func(s *RedlockSettings) { s.RestartDelay = -1 }, "restart_delay"},
		"counters that go at once":  {func(s *RedlockSettings) { s.CounterTTL = time.Second }, "counter_ttl"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := redlockDefaults().(*RedlockSettings)
			s.Nodes = nodes
			c.edit(s)
			setting, remedy := s.Validate()
			if setting != c.want || (remedy == "") != (setting == "") {
				t.Errorf("Validate returns %q, %q; want %q", setting, remedy, c.want)
			}
			if l, err := Redlock.Open(s, Environment{}); (err == nil) != (c.want == "") {
				t.Errorf("Open returns %v", err)
			} else if err == nil {
				_ = l.Close(t.Context())
			}
		})
	}
}
