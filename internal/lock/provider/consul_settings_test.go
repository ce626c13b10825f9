package provider

import (
	"testing"
	"time"
)

func TestSettingsOfConsulThatCannotBeAreNamed(t *testing.T) {
	if setting, remedy := consulDefaults().Validate(); setting != "" {
		t.Errorf("the defaults: %s: %s", setting, remedy)
	}
	for name, c := range map[string]struct {
		edit func(s *ConsulSettings)
		want string
	}{
		"no address":                {func(s *ConsulSettings) { s.Address = "" }, "address"},
		"an address without scheme": {func(s *ConsulSettings) { s.Address = "127.0.0.1:8500" }, "address"},
		"another scheme":            {func(s *ConsulSettings) { s.Address = "redis://127.0.0.1:8500" }, "address"},
		"two tokens":                {func(s *ConsulSettings) { s.Token, s.TokenFile = "t", "f" }, "token_file"},
		"no path":                   {func(s *ConsulSettings) { s.Path = "" }, "path"},
		"a path with a slash":       {func(s *ConsulSettings) { s.Path = "/fence" }, "path"},
		"a path that ends open":     {func(s *ConsulSettings) { s.Path = "fence/" }, "path"},
		"a TTL that is too short":   {func(s *ConsulSettings) { s.SessionTTL = 999 * time.Millisecond }, "session_ttl"},
		"a TTL that is too long":    {func(s *ConsulSettings) { s.SessionTTL = 25 * time.Hour }, "session_ttl"},
		"a negative delay":          {func(s *ConsulSettings) { s.LockDelay = -time.Second }, "lock_delay"},
		"a delay that is too long":  {func(s *ConsulSettings) { s.LockDelay = 61 * time.Second }, "lock_delay"},
		"cleaning up all the time":  {func(s *ConsulSettings) { s.CleanupInterval = 0 }, "cleanup_interval"},
		"a certificate without key": {func(s *ConsulSettings) { s.Address, s.TLSCert = "https://a", "c" }, "tls_key"},
		"a key without certificate": {func(s *ConsulSettings) { s.Address, s.TLSKey = "https://a", "k" }, "tls_cert"},
		"TLS files without TLS":     {func(s *ConsulSettings) { s.TLSCA = "ca" }, "address"},
	} {
		s, _ := consulDefaults().(*ConsulSettings)
		c.edit(s)
		if setting, remedy := s.Validate(); setting != c.want || remedy == "" {
			t.Errorf("%s: setting %q, remedy %q; want setting %q", name, setting, remedy, c.want)
		}
	}
}
