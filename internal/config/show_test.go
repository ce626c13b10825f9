package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const secretive = `
admin_token: "hunter2-hunter2-hunter2"
drain: 7s
users: [{name: alice, passwords: [hunter2, hunter2-too]}]
upstream: {url: "redis+sentinel://alice:hunter2@redis.example/m", sentinel: {password: hunter2}}
lock: {provider: vault, agent_health: {http: "http://u:hunter2@127.0.0.1/"}, vault: {addresses: ["redis://:hunter2@h:1", "h:2"], password: hunter2}}
rules:
  - {name: chat, prefix: "agent: #", wait: 0s, readers: [a, b]}
`

func TestWhatIsShownHasNoSecrets(t *testing.T) {
	withKinds(t, vault)
	cfg := load(t, secretive)
	text, err := cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(cfg.Show())
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range []string{string(text), string(shown), cfg.String()} {
		if strings.Contains(all, "hunter2") {
			t.Errorf("a secret is in\n%s", all)
		}
		if !strings.Contains(all, "redis+sentinel://alice:xxxxx@redis.example/m") {
			t.Errorf("the upstream is not in\n%s", all)
		}
	}
}

// What is printed can be loaded: nothing is left out, and nothing is written that would be read otherwise.
func TestTheConfigurationInForceIsAFileAgain(t *testing.T) {
	for name, text := range map[string]string{
		"own": `
drain: 7s
admin_hosts: [fence.internal.example]
rules:
  - {name: chat, prefix: "agent: #", session: "agent: #<s>:*", wait: 0s, readers: [a, "7"], locked_error: "TRYAGAIN"}
  - {name: n, prefix: "0x10", mode: pass}
  - {name: b, prefix: !!binary /wA=}
`,
		"preset": "rules:\n  - preset: langgraph\n",
	} {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, text)
			yaml, err := cfg.YAML()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, yaml, 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := Load(path, nil)
			if err != nil {
				t.Fatalf("%v in\n%s", err, yaml)
			}
			twice, err := again.YAML()
			if err != nil || !bytes.Equal(twice, yaml) {
				t.Errorf("%v\n%s\nbecame\n%s", err, yaml, twice)
			}
		})
	}
}

func TestWhatIsShownSaysWhatIsDefault(t *testing.T) {
	s := load(t, "drain: 7s\nrules:\n  - {name: chat, prefix: p, wait: 2s}\n").Show()
	found := map[string]ShownOption{}
	for _, o := range s.Options {
		found[o.Key] = o
	}
	if o := found["drain"]; o.Value != "7s" || o.Default || !o.Live {
		t.Errorf("%+v", o)
	}
	if o := found["limits.request"]; o.Value != "1gb" || !o.Default {
		t.Errorf("%+v", o)
	}
	if r := s.Rules[0]; r["name"] != "chat" || r["wait"] != "2s" || r["mode"] != "auto" {
		t.Errorf("%+v", r)
	}
}

func TestUsersAreShownWithoutTheirPasswords(t *testing.T) {
	cfg := load(t, "users:\n  - {name: alice, passwords: [hunter2, '#"+strings.Repeat("0a", 32)+"'], admin: true}\n")
	if u := cfg.Show().Users; len(u) != 1 || u[0]["name"] != "alice" || u[0]["passwords"] != "2" || u[0]["admin"] != "true" {
		t.Errorf("%v", u)
	}
	text, err := cfg.YAML()
	if want := "users:\n  - name: \"alice\"\n    passwords: [\"xxxxx\", \"xxxxx\"]\n"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v in\n%s", err, text)
	}
	if !strings.Contains(cfg.String(), "users=[alice] ") {
		t.Error(cfg)
	}
}

func TestAReloadSaysWhichUsersHaveChanged(t *testing.T) {
	was := load(t, "users:\n  - {name: a, passwords: [hunter2]}\n  - {name: b, passwords: [hunter2]}\n  - {name: c, passwords: [hunter2]}\n")
	is := load(t, "users:\n  - {name: a, passwords: [hunter2]}\n  - {name: d, passwords: [hunter2]}\n  - {name: c, passwords: [hunter3]}\n")
	revised, changed, restart := was.Revised(is)
	if len(revised.Users) != 3 || len(restart) > 0 || strings.Join(changed, ", ") != "user d added, user c changed, user b removed" {
		t.Errorf("%v; %v; %v", revised.Users, changed, restart)
	}
}

func TestAPasswordBesideTheURLIsNotShown(t *testing.T) {
	cfg := load(t, "upstream: {url: redis://h, username: alice, password: hunter2}\n")
	text, err := cfg.YAML()
	if err != nil || !strings.Contains(string(text), `password: "xxxxx"`) || strings.Contains(string(text)+cfg.String(), "hunter2") {
		t.Errorf("%v\n%s\n%s", err, text, cfg)
	}
}

func TestAPasswordCanBeInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first\n")
	t.Setenv("FENCE_UPSTREAM_PASSWORD_FILE", path)
	cfg := load(t, "upstream: {url: redis://h, username: alice}\n")
	target, err := cfg.Upstream.Target()
	if err != nil {
		t.Fatal(err)
	}
	login := cfg.Upstream.Login(target, func(err error) { t.Error(err) })
	for _, want := range []string{"first", "second"} {
		write(want)
		if username, password := login(); username != "alice" || password != want {
			t.Errorf("%s, %s", username, password)
		}
	}
}

func TestAnAdminTokenCanBeInAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("0123456789abcdef\n")
	t.Setenv("FENCE_ADMIN_TOKEN_FILE", path)
	cfg := load(t, "drain: 5s\n")
	if token, err := cfg.Token(); err != nil || token != "0123456789abcdef" {
		t.Errorf("%q, %v", token, err)
	}
	write("another0123456789\n")
	if token, err := cfg.Token(); err != nil || token != "another0123456789" {
		t.Errorf("after it was replaced: %q, %v", token, err)
	}
	write("short")
	if _, err := cfg.Token(); err == nil {
		t.Error("a token that could be guessed is taken")
	}
}
