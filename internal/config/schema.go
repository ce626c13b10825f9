package config

import (
	"fmt"
	"iter"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/size"
)

// tagged yields the fields of a struct that are options, under their names in
// the file.
func tagged(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("yaml")
			if name == "" || name == "-" {
				continue
			}
			if !yield(name, f) {
				return
			}
		}
	}
}

// ruleOptions yields the fields of a rule that are options, those of its groups too, as "durability.replicas".
func ruleOptions() iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		leaves(reflect.TypeFor[rule.Rule](), "", nil, yield)
	}
}

// leaves yields the options of a struct; index is where it is in the rule.
func leaves(t reflect.Type, path string, index []int, yield func(string, reflect.StructField) bool) bool {
	for name, f := range tagged(t) {
		f.Index = append(slices.Clone(index), f.Index...)
		switch {
		case f.Type.Kind() == reflect.Struct:
			if !leaves(f.Type, join(path, name), f.Index, yield) {
				return false
			}
		case !yield(join(path, name), f):
			return false
		}
	}
	return true
}

// group yields the options of a group, and the types of their values: those of a struct, and under lock the settings
// of each provider.
func group(t reflect.Type) iter.Seq2[string, reflect.Type] {
	return func(yield func(string, reflect.Type) bool) {
		for name, f := range tagged(t) {
			if !yield(name, f.Type) {
				return
			}
		}
		if t == reflect.TypeFor[Lock]() {
			settingsTypes()(yield)
		}
	}
}

func names(t reflect.Type) []string {
	var all []string
	for name := range group(t) {
		all = append(all, name)
	}
	return all
}

// join makes an option's path.
func join(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// isNumber tells the types whose values YAML may take for numbers.
func isNumber(t reflect.Type) bool { return t.Kind() != reflect.String }

// listEnd ends each entry of a list that comes from the file. One that comes from a variable has commas between.
const listEnd = "\n"

// textOf is the text that setText makes the field's value of.
func textOf(field reflect.Value) string {
	list, ok := field.Interface().([]string)
	if !ok {
		return fmt.Sprint(field)
	}
	return listText(list)
}

func listText(list []string) string {
	var b strings.Builder
	for _, entry := range list {
		b.WriteString(entry + listEnd)
	}
	return b.String()
}

func listOf(text string) []string {
	switch {
	case text == "":
		return nil
	case strings.HasSuffix(text, listEnd):
		return strings.Split(strings.TrimSuffix(text, listEnd), listEnd)
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// setText sets a field, which is some kind of text, a duration, a size, a
// number, yes or no, or a list of texts, from text.
func setText(field reflect.Value, text string) *fault {
	switch field.Type() {
	case reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if err != nil {
			return badDuration(text)
		}
		field.SetInt(int64(d))
	case reflect.TypeFor[size.Size]():
		n, err := size.Parse(text)
		if err != nil {
			return &fault{fmt.Sprintf("%q is not a size", text), "write a whole number and a unit (kb, mb or gb), as in 64mb"}
		}
		field.SetInt(int64(n))
	case reflect.TypeFor[int]():
		n, err := strconv.Atoi(text)
		if err != nil {
			return &fault{fmt.Sprintf("%q is not a whole number", text), "write digits only, as in 1000"}
		}
		field.SetInt(int64(n))
	case reflect.TypeFor[float64]():
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return &fault{fmt.Sprintf("%q is not a number", text), "write digits, as in 0.1"}
		}
		field.SetFloat(n)
	case reflect.TypeFor[bool]():
		yes, err := strconv.ParseBool(text)
		if err != nil {
			return &fault{fmt.Sprintf("%q is neither true nor false", text), "write true or false"}
		}
		field.SetBool(yes)
	case reflect.TypeFor[[]string]():
		field.Set(reflect.ValueOf(listOf(text)))
	default:
		field.SetString(text)
	}
	return nil
}

func badDuration(text string) *fault {
	if n, ok := new(big.Int).SetString(text, 10); ok && n.Sign() > 0 {
		remedy := fmt.Sprintf("write %ss or %sms", n, n)
		if n.Cmp(big.NewInt(1000)) >= 0 { // was meant in milliseconds, most likely
			seconds := new(big.Int).Add(n, big.NewInt(999))
			remedy = fmt.Sprintf("write %sms or %ss", n, seconds.Div(seconds, big.NewInt(1000)))
		}
		return &fault{problem: fmt.Sprintf("%q has no unit", text), remedy: remedy}
	}
	if text != "" && strings.Trim(text, "+-.0123456789") == "" {
		return &fault{problem: fmt.Sprintf("%q has no unit", text), remedy: "add one of ms, s, m and h, as in 1.5s"}
	}
	return &fault{problem: fmt.Sprintf("%q is not a time", text), remedy: "write a number and a unit (ms, s, m or h), as in 1500ms, 30s or 2m"}
}
