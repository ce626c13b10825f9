package config

import (
	"fmt"
	"iter"
	"math/big"
	"reflect"
	"strings"
	"time"
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

func names(t reflect.Type) []string {
	var all []string
	for name := range tagged(t) {
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

// setText sets a field, which is some kind of text or a duration, from text.
func setText(field reflect.Value, text string) *fault {
	if field.Type() != reflect.TypeFor[time.Duration]() {
		field.SetString(text)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return badDuration(text)
	}
	field.SetInt(int64(d))
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
