package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// entry is one entry of the file's rules: a rule, or a preset and what is changed of it.
type entry struct {
	doc    *document
	path   string
	preset string
	broken map[string]bool // options that are refused
	errs   []*Error
}

// given returns an option's text; ok is false if there is none.
func (e *entry) given(option string) (text string, ok bool) {
	text, ok = e.doc.values[join(e.path, option)]
	return text, ok
}

// has reports whether the entry has an option, whatever its value.
func (e *entry) has(option string) bool {
	_, ok := e.doc.lines[join(e.path, option)]
	return ok
}

// refuse reports a mistake, one for each option.
func (e *entry) refuse(option, problem, remedy string) {
	if e.broken[option] {
		return
	}
	e.broken[option] = true
	key := join(e.path, option)
	e.errs = append(e.errs, &Error{File: e.doc.path, Line: e.doc.line(key), Key: key, Problem: problem, Remedy: remedy})
}

// rules returns the rules that the entry stands for, not compiled.
func (e *entry) rules() []*rule.Rule {
	e.broken = make(map[string]bool)
	for option, f := range ruleOptions() {
		if f.Type.Kind() == reflect.Slice {
			_, whole := e.doc.list(join(e.path, option))
			e.broken[option] = !whole
			continue
		}
		_, isText := e.given(option)
		e.broken[option] = e.has(option) && !isText
	}
	rules := e.bases()
	for _, r := range rules {
		base := *r
		for option, f := range ruleOptions() {
			if e.has(option) && !e.broken[option] && (base.Preset == "" || changes(&base, option)) {
				e.set(option, reflect.ValueOf(r).Elem().FieldByIndex(f.Index))
			}
		}
	}
	return rules
}

// set sets a rule's field from an option.
func (e *entry) set(option string, field reflect.Value) {
	if field.Kind() == reflect.Slice {
		list, _ := e.doc.list(join(e.path, option))
		field.Set(reflect.ValueOf(list))
		return
	}
	text, _ := e.given(option)
	if f := setText(field, text); f != nil {
		e.refuse(option, f.problem, f.remedy)
	}
}

// bases returns the rules that the options are laid over: one with the defaults, or those of the preset, under the entry's
// name and prefix.
func (e *entry) bases() []*rule.Rule {
	name, ok := e.given("preset")
	switch {
	case e.broken["preset"]:
		return nil
	case !ok:
		if !e.has("prefix") {
			e.refuse("prefix", "is missing", `write the text that the guarded keys begin with, as in prefix: "agent:ctx:", or prefix: "" to guard every key`)
		}
		r := rule.Default()
		return []*rule.Rule{&r}
	}
	p, f := presetNamed(name)
	if f != nil {
		e.refuse("preset", f.problem, f.remedy)
		return nil
	}
	e.preset = name
	e.checkChanges(p)
	home, rules := p.Home(), make([]*rule.Rule, len(p.Rules))
	for i, r := range p.Rules {
		rules[i] = &r.Rule
		if own, ok := e.given("name"); ok {
			rules[i].Name = own + r.Suffix
		}
		if prefix, ok := e.given("prefix"); ok && i == home {
			r.Rule = r.At(prefix)
		}
	}
	return rules
}

// checkChanges refuses options that can't change the preset.
func (e *entry) checkChanges(p rule.Preset) {
	guards := slices.ContainsFunc(p.Rules, func(r *rule.PresetRule) bool { return r.Guards() })
	for option := range ruleOptions() {
		switch {
		case !e.has(option) || option == "preset" || option == "name":
		case p.Home() < 0 && (option == "prefix" || option == "session"):
			e.refuse(option, fmt.Sprintf("preset %q has %d rules, each with a %s of its own", p.Name, len(p.Rules), option),
				"leave it out, or write the rules out: fence-proxy presets "+p.Name)
		case !guards && option != "prefix":
			e.refuse(option, fmt.Sprintf("preset %q only lets keys pass", p.Name), "leave it out")
		}
	}
}

// changes reports whether an entry's option is laid over a rule of its preset. What lets keys pass goes on to do so.
func changes(base *rule.Rule, option string) bool {
	return option != "preset" && option != "name" && option != "prefix" && base.Guards()
}

// origins are the first entries with each name and each prefix.
type origins struct{ names, prefixes map[string]*entry }

// unlike refuses a rule whose name or prefix an earlier one has.
func (o *origins) unlike(e *entry, r *rule.Rule) {
	e.unlike(o.names, "name", r.Name, "give each rule its own name")
	e.unlike(o.prefixes, "prefix", r.Prefix, "join the two rules, or make one prefix longer")
}

func (e *entry) unlike(seen map[string]*entry, option, text, remedy string) {
	_, own := e.given(option)
	if !own && e.preset == "" {
		return // it is missing, and that is reported
	}
	first := seen[text]
	if first == nil {
		seen[text] = e
		return
	}
	line := e.doc.line(join(first.path, option))
	switch {
	case e.preset == "" && first.preset == "":
		e.refuse(option, fmt.Sprintf("%q is the %s of %s too (line %d)", text, option, first.path, line), remedy)
		return
	case option == "name" && e.preset == first.preset:
		remedy = "keep one of them, or give each a name and a prefix of its own"
	case option == "name":
		remedy = "give one of them another name"
	default:
		remedy = "keep one of them, or write out the rules that you need: fence-proxy presets " + cmp.Or(e.preset, first.preset)
	}
	at := option
	if !own {
		at = "preset"
	}
	e.refuse(at, fmt.Sprintf("%s has the %s %q, and so has %s (line %d)", e, option, text, first, line), remedy)
}

// String says which entry it is.
func (e *entry) String() string {
	if e.preset == "" {
		return e.path
	}
	return fmt.Sprintf("preset %q in %s", e.preset, e.path)
}
