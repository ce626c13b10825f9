package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

func runPresets(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(append([]string{"presets"}, args...))
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// What it prints is a configuration, and means what the preset means.
func TestAPresetIsPrintedAsTheRulesThatItStandsFor(t *testing.T) {
	for _, p := range rule.Presets() {
		t.Run(p.Name, func(t *testing.T) {
			text, err := runPresets(t, p.Name)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "config.yaml")
			rules := func(text string) []*rule.Rule {
				t.Helper()
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				cfg, err := config.Load(file, nil)
				if err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				for _, r := range cfg.Rules {
					r.Preset = ""
				}
				return cfg.Rules
			}
			if got, want := rules(text), rules("rules:\n  - preset: "+p.Name+"\n"); !reflect.DeepEqual(got, want) {
				t.Errorf("it prints\n%s", text)
			}
			for _, r := range p.Rules {
				if !strings.Contains(text, "# "+r.Why) {
					t.Errorf("it does not say %q", r.Why)
				}
			}
		})
	}
}

func TestPresetsListsThem(t *testing.T) {
	text, err := runPresets(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range rule.PresetNames() {
		if !strings.Contains("\n"+text, "\n"+name+" ") {
			t.Errorf("%s is missing:\n%s", name, text)
		}
	}
}

func TestPresetsSaysWhatMayHaveBeenMeant(t *testing.T) {
	_, err := runPresets(t, "langraph")
	if err == nil || exitCode(err) != usageExit || err.Error() != `"langraph" is not a preset: did you mean langgraph?` {
		t.Errorf("got %v", err)
	}
	if _, err := runPresets(t, "rq", "celery"); err == nil || exitCode(err) != usageExit {
		t.Errorf("got %v", err)
	}
}
