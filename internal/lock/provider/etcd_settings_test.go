package provider

import (
	"testing"
	"time"
)

func TestSettingsOfEtcdThatCannotBeAreNamed(t *testing.T) {
	if setting, remedy := newEtcdSettings().Validate(); setting != "" {
		t.Errorf("the defaults: %s: %s", setting, remedy)
	}
	for name, c := range map[string]struct {
		edit func(s *EtcdSettings)
		want string
	}{
		"no endpoint":               {func(s *EtcdSettings) { s.Endpoints = nil }, "endpoints"},
		"an empty endpoint":         {func(s *EtcdSettings) { s.Endpoints = []string{""} }, "endpoints"},
		"a list in one endpoint":    {func(s *EtcdSettings) { s.Endpoints = []string{"a:1,b:1"} }, "endpoints"},
		"another scheme":            {func(s *EtcdSettings) { s.Endpoints = []string{"redis://a:1"} }, "endpoints"},
		"http and https":            {func(s *EtcdSettings) { s.Endpoints = []string{"https://a:1", "http://b:1"} }, "endpoints"},
		"https for one only":        {func(s *EtcdSettings) { s.Endpoints = []string{"https://a:1", "b:1"} }, "endpoints"},
		"no prefix":                 {func(s *EtcdSettings) { s.Prefix = "" }, "prefix"},
		"a TTL that is too short":   {func(s *EtcdSettings) { s.TTL = time.Second }, "ttl"},
		"half a second of TTL":      {func(s *EtcdSettings) { s.TTL = 2500 * time.Millisecond }, "ttl"},
		"no time for requests":      {func(s *EtcdSettings) { s.RequestTimeout = 0 }, "request_timeout"},
		"a request as long as TTL":  {func(s *EtcdSettings) { s.RequestTimeout = s.TTL }, "request_timeout"},
		"no time to dial":           {func(s *EtcdSettings) { s.DialTimeout = 0 }, "dial_timeout"},
		"a password for nobody":     {func(s *EtcdSettings) { s.Password = "secret" }, "username"},
		"a user without a password": {func(s *EtcdSettings) { s.Username = "fence" }, "password"},
		"a certificate without key": {func(s *EtcdSettings) { s.Endpoints, s.TLSCert = []string{"https://a:1"}, "c" }, "tls_key"},
		"a key without certificate": {func(s *EtcdSettings) { s.Endpoints, s.TLSKey = []string{"https://a:1"}, "k" }, "tls_cert"},
		"TLS files without TLS":     {func(s *EtcdSettings) { s.TLSCA = "ca" }, "endpoints"},
	} {
		s, _ := newEtcdSettings().(*EtcdSettings)
		c.edit(s)
		if setting, remedy := s.Validate(); setting != c.want || remedy == "" {
			t.Errorf("%s: setting %q, remedy %q; want setting %q", name, setting, remedy, c.want)
		}
	}
}
