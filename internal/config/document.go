package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fence-proxy/fence-proxy/internal/account"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// document is a configuration file, taken apart into the texts of its options
// by their paths. Decoding straight into the structs would lose the lines, and
// viper neither sees unknown keys nor tells 0 from nothing.
type document struct {
	path   string
	values map[string]string // by path, as "rules[0].wait"; well-typed values only
	lines  map[string]int    // of everything that is there, well-typed or not
	rules  []string          // the paths of the rules that are groups of options
	users  []string          // and of the users
	errs   []*Error
}

// readDocument takes the file at path apart; without a path it is an empty one.
// The document has what could be made out in spite of the errors.
func readDocument(path string, c contents) (*document, []*Error) {
	d := &document{path: path, values: make(map[string]string), lines: make(map[string]int)}
	if path == "" {
		return d, nil
	}
	if c.err != nil {
		d.refuseFile(c.err)
		return d, d.errs
	}
	decoder := yaml.NewDecoder(bytes.NewReader(c.data))
	var root, second yaml.Node
	if err := decoder.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		d.refuseSyntax(err)
		return d, d.errs
	}
	if len(root.Content) == 0 || root.Content[0].ShortTag() == "!!null" {
		d.refuse(0, "", "is empty", "write at least upstream.url and a rule, or run without a file to try the proxy out")
		return d, d.errs
	}
	if err := decoder.Decode(&second); err == nil {
		d.refuse(second.Line, "", "begins a second document", "keep one, without --- between options")
	} else if !errors.Is(err, io.EOF) {
		d.refuseSyntax(err)
	}
	d.walk(root.Content[0], reflect.TypeFor[Config](), "")
	return d, d.errs
}

func (d *document) refuse(line int, key, problem, remedy string) {
	d.errs = append(d.errs, &Error{File: d.path, Line: line, Key: key, Problem: problem, Remedy: remedy})
}

func (d *document) refuseFile(err error) {
	if info, statErr := os.Stat(d.path); statErr == nil && info.IsDir() {
		d.refuse(0, "", "is a directory", "name the file in it, as in "+strings.TrimRight(d.path, "/")+"/config.yaml")
		return
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.refuse(0, "", "does not exist", "check the path; it counts from the working directory unless it begins with /")
	case errors.Is(err, fs.ErrPermission):
		d.refuse(0, "", "may not be read by this user", "change its mode or owner")
	default:
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			err = pathErr.Err // the path is in front already
		}
		d.refuse(0, "", "cannot be read", err.Error())
	}
}

func (d *document) refuseSyntax(err error) {
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1 // the first line goes unsaid
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(text); m != nil {
		text = text[len(m[0]):]
		line, _ = strconv.Atoi(m[1]) // digits
	}
	remedy := "look for indentation, quotes or a missing space after a colon, here or just above"
	switch {
	case strings.Contains(text, "UTF") || strings.Contains(text, "control characters"):
		line, remedy = 0, "save it as UTF-8 text"
	case strings.Contains(text, "cannot start any token"):
		remedy = "indent with spaces, not tabs, and put values that begin with @, % or ` in quotes"
	case strings.Contains(text, "mapping values"):
		remedy = `put values with a colon in quotes, as in "embedded:", and look at the indentation`
	}
	d.refuse(line, "", "is not YAML ("+text+")", remedy)
}

// walk takes a node apart as a value of type t.
func (d *document) walk(node *yaml.Node, t reflect.Type, path string) {
	line := node.Line // where an alias stands, not what it stands for
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if _, given := d.lines[path]; !given {
		d.lines[path] = line
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if node.ShortTag() == "!!null" {
		d.refuse(line, path, "has no value", "write one, or leave the line out")
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		d.walkOptions(node, t, path, line)
	case reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			remedy := "begin each entry with a dash, as in - name: chat"
			if t.Elem().Kind() == reflect.String {
				remedy = "write it in brackets, as in [one, other]"
			}
			d.refuse(line, path, "is "+kind(node)+", not a list", remedy)
			return
		}
		for i, entry := range node.Content {
			d.walk(entry, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	default:
		d.walkText(node, t, path, line)
	}
}

func (d *document) walkOptions(node *yaml.Node, t reflect.Type, path string, line int) {
	if node.Kind != yaml.MappingNode {
		d.refuse(line, path, "is "+kind(node)+", not a group of options", "write its options as key: value, as in "+names(t)[0]+": …")
		return
	}
	switch t {
	case reflect.TypeFor[rule.Rule]():
		d.rules = append(d.rules, path)
	case reflect.TypeFor[account.User]():
		d.users = append(d.users, path)
	}
	known := make(map[string]reflect.Type)
	for name, inner := range group(t) {
		known[name] = inner
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.refuse(key.Line, path, "has "+kind(key)+" in place of an option's name", "write key: value")
			continue
		}
		name, at := key.Value, join(path, printable(key.Value))
		field, isKnown := known[name]
		first, isRepeated := seen[name]
		switch {
		case key.ShortTag() == "!!merge":
			d.refuse(key.Line, at, "is not supported", "write the options out")
		case !isKnown:
			d.refuse(key.Line, at, "is not an option", suggest(name, path, names(t)))
		case isRepeated:
			d.refuse(key.Line, at, fmt.Sprintf("is given twice, first on line %d", first), "remove one")
		default:
			seen[name] = key.Line
			d.lines[at] = key.Line
			d.walk(value, field, at)
		}
	}
}

func (d *document) walkText(node *yaml.Node, t reflect.Type, path string, line int) {
	if node.Kind != yaml.ScalarNode {
		d.refuse(line, path, "is "+kind(node)+", not one value", "write it on one line, after "+path[strings.LastIndexByte(path, '.')+1:]+":")
		return
	}
	switch tag := node.ShortTag(); {
	case tag == "!!str", tag == "!!bool" && t.Kind() == reflect.Bool:
		d.values[path] = node.Value
	case tag == "!!binary":
		var text string
		if err := node.Decode(&text); err != nil {
			d.refuse(line, path, "is not base64", "write the bytes in base64 after !!binary")
			return
		}
		d.values[path] = text
	case tag == "!!int", tag == "!!float":
		switch {
		case isNumber(t):
		case isSecret(path):
			d.refuse(line, path, "is a number, not text", "put it in quotes")
			return
		default:
			d.refuse(line, path, node.Value+" is a number, not text", fmt.Sprintf("put it in quotes: %q", node.Value))
			return
		}
		d.values[path] = node.Value
	case isSecret(path):
		d.refuse(line, path, fmt.Sprintf("is not text to YAML (%s)", strings.TrimPrefix(tag, "!!")), "put it in quotes")
	case isNumber(t):
		f := setText(reflect.New(t).Elem(), node.Value)
		d.refuse(line, path, f.problem, f.remedy)
	default:
		d.refuse(line, path, fmt.Sprintf("%s is not text to YAML (%s)", node.Value, strings.TrimPrefix(tag, "!!")), fmt.Sprintf("put it in quotes: %q", node.Value))
	}
}

// printable keeps a name on one line.
func printable(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' || r == ':' }) {
		return strconv.Quote(name)
	}
	return name
}

func kind(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a group of options"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "one value"
	}
}

// tree returns the options outside of the rules in the nested form that viper
// reads.
func (d *document) tree() map[string]any {
	root := make(map[string]any)
	for _, o := range options() {
		text, given := d.values[o.key]
		if o.list {
			list, whole := d.list(o.key)
			_, given = d.lines[o.key]
			text, given = listText(list), given && whole
		}
		if !given {
			continue
		}
		group, path := root, strings.Split(o.key, ".")
		for _, name := range path[:len(path)-1] {
			inner, _ := group[name].(map[string]any)
			if inner == nil {
				inner = make(map[string]any)
				group[name] = inner
			}
			group = inner
		}
		group[path[len(path)-1]] = text
	}
	return root
}

// suggest says what an unknown key may have been meant for.
func suggest(name, path string, known []string) string {
	if best := nearest(name, known); best != "" {
		return "did you mean " + best + "?"
	}
	for _, o := range options() { // right name, wrong place
		if strings.HasSuffix(o.key, "."+name) {
			return "did you mean " + o.key + "?"
		}
	}
	if slices.Contains(names(reflect.TypeFor[rule.Rule]()), name) {
		return name + " belongs to a rule, under rules"
	}
	if path == "" {
		return "the options are " + strings.Join(known, ", ")
	}
	return "the options of " + path + " are " + strings.Join(known, ", ")
}
