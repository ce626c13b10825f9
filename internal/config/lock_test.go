package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// vaultSettings are the settings of a lock provider that there is not.
type vaultSettings struct {
	Addresses []string      `yaml:"addresses"`
	Password  string        `yaml:"password"`
	TTL       time.Duration `yaml:"ttl"`
	Retries   int           `yaml:"retries"`
	TLS       bool          `yaml:"tls"`
}

func (s *vaultSettings) Validate() (setting, remedy string) {
	switch {
	case len(s.Addresses) == 0:
		return "addresses", "name one"
	case s.TTL < time.Second:
		return "ttl", "write 1s or more"
	}
	return "", ""
}

var vault = provider.Kind{
	Name:     "vault",
	Settings: func() provider.Settings { return &vaultSettings{TTL: 10 * time.Second, Retries: 3} },
}

// withKinds has a test know these lock providers alone.
func withKinds(t *testing.T, kinds ...provider.Kind) {
	t.Helper()
	old := provider.Kinds
	provider.Kinds = kinds
	t.Cleanup(func() { provider.Kinds = old })
}

// settings are those of the configured provider.
func (c *Config) vault(t *testing.T) vaultSettings {
	t.Helper()
	kind, settings, ok := c.Lock.Kind()
	if !ok || kind.Name != "vault" {
		t.Fatalf("the provider is %q", kind.Name)
	}
	return *settings.(*vaultSettings)
}

func TestALockProviderHasItsSettings(t *testing.T) {
	withKinds(t, vault)
	const head = "lock:\n  provider: vault\n  vault:\n    addresses: "
	for text, want := range map[string]vaultSettings{
		head + "[h:1]\n": {Addresses: []string{"h:1"}, TTL: 10 * time.Second, Retries: 3},
		head + "[\"a,b\", c]\n    password: p\n    ttl: 2s\n    retries: 0\n    tls: true\n": {Addresses: []string{"a,b", "c"}, Password: "p", TTL: 2 * time.Second, TLS: true},
		head + "[\"a,b\"]\n    tls: \"false\"\n":                                             {Addresses: []string{"a,b"}, TTL: 10 * time.Second, Retries: 3},
	} {
		cfg := load(t, text)
		if got := cfg.vault(t); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if !cfg.Lock.Outside() || cfg.Lock.Pass() {
			t.Errorf("%s: %+v", text, cfg.Lock)
		}
	}
	if cfg := load(t, "lock: {vault: {addresses: [h:1]}}"); cfg.Lock.Outside() {
		t.Error("settings alone choose a provider")
	}
}

func TestALockProvidersSettingsHaveVariables(t *testing.T) {
	withKinds(t, vault)
	for name, value := range map[string]string{
		"FENCE_LOCK_PROVIDER": "vault", "FENCE_LOCK_VAULT_ADDRESSES": "a:1, b:2", "FENCE_LOCK_VAULT_PASSWORD": "p",
		"FENCE_LOCK_VAULT_TTL": "2s", "FENCE_LOCK_VAULT_RETRIES": "5", "FENCE_LOCK_VAULT_TLS": "true",
	} {
		t.Setenv(name, value)
	}
	cfg := load(t, "lock: {vault: {addresses: [h:1], ttl: 5s}}")
	want := vaultSettings{Addresses: []string{"a:1", "b:2"}, Password: "p", TTL: 2 * time.Second, Retries: 5, TLS: true}
	if got := cfg.vault(t); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	t.Setenv("FENCE_LOCK_VAULT_TTL", "soon")
	if _, err := Load("", nil); err == nil || !strings.Contains(err.Error(), "FENCE_LOCK_VAULT_TTL: ") {
		t.Error(err)
	}
}

func TestALockProvidersSecretsAreNeverPrinted(t *testing.T) {
	withKinds(t, vault)
	cfg := load(t, "lock: {provider: vault, vault: {addresses: [\"redis://:hunter2@h:1\"], password: hunter2}}")
	text := cfg.String()
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "lock.vault.addresses=[redis://:xxxxx@h:1]") || !strings.Contains(text, "lock.vault.password=xxxxx") {
		t.Error(text)
	}
}

func TestAChangeOfTheLocksNeedsARestart(t *testing.T) {
	withKinds(t, vault)
	was := load(t, "lock: {provider: vault, vault: {addresses: [h:1]}}")
	is := load(t, "lock: {provider: vault, on_provider_down: pass, vault: {addresses: [h:1, h:2], tls: true}}")
	if _, changed, restart := was.Revised(is); len(changed) > 0 ||
		!slices.Equal(restart, []string{"lock.on_provider_down", "lock.vault.addresses", "lock.vault.tls"}) {
		t.Errorf("changed %q, restart %q", changed, restart)
	}
	if _, _, restart := was.Revised(load(t, "lock: {provider: vault, vault: {addresses: [h:1]}}")); len(restart) > 0 {
		t.Errorf("nothing has changed: %q", restart)
	}
}
