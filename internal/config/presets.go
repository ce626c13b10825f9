package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// Preset returns the preset of this name. The error says what may have been meant.
func Preset(name string) (rule.Preset, error) {
	p, f := presetNamed(name)
	if f != nil {
		return p, errors.New(f.problem + ": " + f.remedy)
	}
	return p, nil
}

func presetNamed(name string) (rule.Preset, *fault) {
	p, ok := rule.PresetNamed(name)
	if ok {
		return p, nil
	}
	remedy := "the presets are " + strings.Join(rule.PresetNames(), ", ")
	if best := nearest(name, rule.PresetNames()); best != "" {
		remedy = "did you mean " + best + "?"
	}
	return p, &fault{fmt.Sprintf("%q is not a preset", name), remedy}
}
