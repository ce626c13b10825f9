package config

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// addRules compiles the rules of the file.
func (c *Config) addRules(d *document) []*Error {
	var errs []*Error
	refuse := func(key, problem, remedy string) {
		errs = append(errs, &Error{File: d.path, Line: d.line(key), Key: key, Problem: problem, Remedy: remedy})
	}
	names, prefixes := make(map[string]string), make(map[string]string) // to the path of the first rule with it
	for _, path := range d.rules {
		r := rule.Default()
		broken := make(map[string]bool) // options with an error already
		for name, f := range tagged(reflect.TypeFor[rule.Rule]()) {
			key := join(path, name)
			if f.Type.Kind() == reflect.Slice {
				list, whole := d.list(key)
				reflect.ValueOf(&r).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(list))
				broken[name] = !whole
				continue
			}
			text, ok := d.values[key]
			if !ok {
				_, broken[name] = d.lines[key]
				continue
			}
			if f := setText(reflect.ValueOf(&r).Elem().FieldByIndex(f.Index), text); f != nil {
				broken[name] = true
				refuse(key, f.problem, f.remedy)
			}
		}
		if _, given := d.lines[join(path, "prefix")]; !given {
			refuse(join(path, "prefix"), "is missing", `write the text that the guarded keys begin with, as in prefix: "agent:ctx:", or prefix: "" to guard every key`)
		}
		compiled, err := rule.Compile(r)
		for _, f := range fieldErrors(err) {
			if !broken[f.Field] {
				refuse(join(path, f.Field), f.Problem, f.Remedy)
			}
		}
		unlike := func(seen map[string]string, option, what, remedy string) {
			key := join(path, option)
			text, ok := d.values[key]
			if first, twice := seen[text]; ok && twice {
				refuse(key, fmt.Sprintf("%q is the %s of %s too (line %d)", text, what, first, d.line(join(first, option))), remedy)
			} else if ok {
				seen[text] = path
			}
		}
		unlike(names, "name", "name", "give each rule its own name")
		unlike(prefixes, "prefix", "prefix", "join the two rules, or make one prefix longer")
		if compiled != nil {
			c.Rules = append(c.Rules, compiled)
		}
	}
	if len(errs) > 0 || len(d.errs) > 0 {
		return errs
	}
	set, err := rule.NewSet(c.Rules)
	if err != nil {
		refuse("rules", err.Error(), "tell the rules apart")
		return errs
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
