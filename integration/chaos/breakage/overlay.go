package breakage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Patch is a text in a source file, and what is in its place when a promise is broken.
type Patch struct {
	File, Old, New string
}

func (p Patch) isLua() bool { return strings.HasSuffix(p.File, ".lua") }

// hooks are where the sources ask.
var hooks = []Patch{
	{"cmd/fence-proxy/main.go", "\troot.RunE = serve.RunE\n", "\troot.RunE = serve.RunE\n\tbreakage.AddFlag(root.Flags())\n"},
	{"internal/tokenstore/script.go", "minify(s)", "minify(breakage.Lua(s))"},
}

const itself = "\t\"github.com/fence-proxy/fence-proxy/integration/chaos/breakage\"\n"

// Overlay writes the sources that are changed into a directory, and the file for go build's -overlay, whose path it returns. root
// is the module's. A text that is not there, or more than once, is an error.
func Overlay(root, dir string) (string, error) {
	changed := map[string]string{}
	apply := func(p Patch) error {
		text, ok := changed[p.File]
		if !ok {
			source, err := os.ReadFile(filepath.Join(root, p.File))
			if err != nil {
				return err
			}
			text = string(source)
		}
		if n := strings.Count(text, p.Old); n != 1 {
			return fmt.Errorf("%s has %d times: %s", p.File, n, p.Old)
		}
		if !p.isLua() {
			changed[p.File] = strings.Replace(text, p.Old, p.New, 1)
		}
		return nil
	}
	for _, p := range hooks {
		if err := apply(p); err != nil {
			return "", err
		}
	}
	for _, promise := range All {
		for _, p := range promise.Patches {
			if err := apply(p); err != nil {
				return "", fmt.Errorf("break %s: %w", promise.Name, err)
			}
		}
	}
	replace := map[string]string{}
	for file, text := range changed {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "-"))
		text = strings.Replace(text, "import (\n", "import (\n"+itself, 1)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, file)] = path
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, text, 0o600)
}
