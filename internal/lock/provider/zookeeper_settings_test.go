package provider

import (
	"testing"
	"time"
)

func TestSettingsOfZooKeeperThatCannotBeAreNamed(t *testing.T) {
	if setting, remedy := zookeeperDefaults().Validate(); setting != "" {
		t.Errorf("the defaults: %s: %s", setting, remedy)
	}
	for name, c := range map[string]struct {
		edit func(s *ZooKeeperSettings)
		want string
	}{
		"no server":                 {func(s *ZooKeeperSettings) { s.Servers = nil }, "servers"},
		"an empty server":           {func(s *ZooKeeperSettings) { s.Servers = []string{"zk1:2181", ""} }, "servers"},
		"a list and a chroot":       {func(s *ZooKeeperSettings) { s.Servers = []string{"zk1:2181,zk2:2181/app"} }, "servers"},
		"a URL":                     {func(s *ZooKeeperSettings) { s.Servers = []string{"zk://zk1"} }, "servers"},
		"a path without a slash":    {func(s *ZooKeeperSettings) { s.Path = "fence-proxy" }, "path"},
		"the root":                  {func(s *ZooKeeperSettings) { s.Path = "/" }, "path"},
		"a path that ends open":     {func(s *ZooKeeperSettings) { s.Path = "/a/" }, "path"},
		"a path with a hole":        {func(s *ZooKeeperSettings) { s.Path = "/a//b" }, "path"},
		"a path that leads back":    {func(s *ZooKeeperSettings) { s.Path = "/a/../b" }, "path"},
		"ZooKeeper's own path":      {func(s *ZooKeeperSettings) { s.Path = "/zookeeper/fence" }, "path"},
		"a timeout without time":    {func(s *ZooKeeperSettings) { s.SessionTimeout = 0 }, "session_timeout"},
		"a user without a password": {func(s *ZooKeeperSettings) { s.Auth = "us" }, "auth"},
		"a certificate without key": {func(s *ZooKeeperSettings) { s.TLS, s.TLSCert = true, "c" }, "tls_key"},
		"a key without certificate": {func(s *ZooKeeperSettings) { s.TLS, s.TLSKey = true, "k" }, "tls_cert"},
		"TLS files without TLS":     {func(s *ZooKeeperSettings) { s.TLSCA = "ca" }, "tls"},
	} {
		s, _ := zookeeperDefaults().(*ZooKeeperSettings)
		c.edit(s)
		if setting, remedy := s.Validate(); setting != c.want || remedy == "" {
			t.Errorf("%s: setting %q, remedy %q; want setting %q", name, setting, remedy, c.want)
		}
	}
	s, _ := zookeeperDefaults().(*ZooKeeperSettings)
	s.Servers, s.Path, s.SessionTimeout = []string{"zk1", "zk2:2182", "::1", "[::1]:2181"}, "/a/b", 4*time.Second
	if setting, remedy := s.Validate(); setting != "" {
		t.Errorf("good settings: %s: %s", setting, remedy)
	}
}
