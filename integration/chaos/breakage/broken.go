//go:build breakable

package breakage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// broken is the promise that this process breaks; "" for none.
var broken string

// AddFlag adds --break.
func AddFlag(flags *pflag.FlagSet) {
	flags.Var(name{}, "break", "break a promise, for tests: its `name`")
}

type name struct{}

func (name) String() string { return broken }
func (name) Type() string   { return "name" }

func (name) Set(text string) error {
	if !slices.ContainsFunc(All, func(p Promise) bool { return p.Name == text }) {
		return fmt.Errorf("there is no promise %q", text)
	}
	broken = text
	return nil
}

// Is reports whether a promise is broken.
func Is(name string) bool { return broken == name }

// Lua is a script, or what is in its place.
func Lua(source string) string {
	for _, p := range All {
		for _, patch := range p.Patches {
			if Is(p.Name) && patch.isLua() {
				source = strings.Replace(source, patch.Old, patch.New, 1)
			}
		}
	}
	return source
}
