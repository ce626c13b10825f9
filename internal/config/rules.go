package config

import (
	"errors"
	"fmt"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// addRules compiles the rules of the file.
func (c *Config) addRules(d *document) []*Error {
	var errs []*Error
	first := origins{names: make(map[string]*entry), prefixes: make(map[string]*entry)}
	for _, path := range d.rules {
		e := &entry{doc: d, path: path}
		for _, r := range e.rules() {
			compiled, err := rule.Compile(*r)
			for _, f := range fieldErrors(err) {
				e.refuse(f.Field, f.Problem, f.Remedy)
			}
			first.unlike(e, r)
			if compiled != nil {
				c.Rules = append(c.Rules, compiled)
			}
		}
		errs = append(errs, e.errs...)
	}
	if len(errs) > 0 || len(d.errs) > 0 {
		return errs
	}
	set, err := rule.NewSet(c.Rules)
	if err != nil {
		return []*Error{{File: d.path, Line: d.line("rules"), Key: "rules", Problem: err.Error(), Remedy: "tell the rules apart"}}
	}
	c.Set = set
	return nil
}

// list returns the texts of a list, and whether each could be made out.
func (d *document) list(key string) (list []string, whole bool) {
	for i := 0; ; i++ {
		entry := fmt.Sprintf("%s[%d]", key, i)
		if _, given := d.lines[entry]; !given {
			return list, true
		}
		text, ok := d.values[entry]
		if !ok {
			return nil, false
		}
		list = append(list, text)
	}
}

// line returns the line of an option, or of the rule that lacks it.
func (d *document) line(key string) int {
	for ; key != ""; key = parent(key) {
		if line, given := d.lines[key]; given {
			return line
		}
	}
	return 0
}

func parent(key string) string {
	for i := len(key) - 1; i > 0; i-- {
		if key[i] == '.' {
			return key[:i]
		}
	}
	return ""
}

// fieldErrors takes what rule.Compile reports apart.
func fieldErrors(err error) []*rule.FieldError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // one level of errors.Join
		var all []*rule.FieldError
		for _, e := range joined.Unwrap() {
			all = append(all, fieldErrors(e)...)
		}
		return all
	}
	var f *rule.FieldError
	if errors.As(err, &f) {
		return []*rule.FieldError{f}
	}
	return nil
}
