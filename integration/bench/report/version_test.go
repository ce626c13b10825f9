package report

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestVersionsAreThoseOfTheFiles(t *testing.T) {
	mod, npm := filepath.Join(t.TempDir(), "go.mod"), filepath.Join(t.TempDir(), "package.json")
	for file, text := range map[string]string{
		mod: "module m\n\nrequire a.b/c v1.2.3\n\nrequire (\n\ta.b/cd v4.5.6 // indirect\n)\n",
		npm: `{"dependencies": {"y": "2.0.0", "x": "1.0.0"}}`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Modules(mod, "a.b/cd", "a.b/c", "a.b/e")
	if want := []Version{{"a.b/cd", "v4.5.6"}, {"a.b/c", "v1.2.3"}, {"a.b/e", "not there"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	got, err = NodePackages(npm)
	if want := []Version{{"x (npm)", "1.0.0"}, {"y (npm)", "2.0.0"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if got := Programs()[0]; got.Name != "Go" || got.Version == "" {
		t.Errorf("the first program is %v", got)
	}
}
