package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fence-proxy/fence-proxy/internal/account"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

const samplePath = "../../config.yaml"

func TestTheSampleLoads(t *testing.T) {
	cfg, err := Load(samplePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Upstream.URL != "redis://127.0.0.1:6379" {
		t.Errorf("upstream.url is %s", cfg.Upstream.URL)
	}
	builtin, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cfg.Rules, builtin.Rules) {
		t.Errorf("its rules are not the built-in ones")
	}
}

func TestTheSampleLoadsWithItsExamplesSwitchedOn(t *testing.T) {
	cfg := load(t, switchedOn(t))
	if len(cfg.Rules) != 2+3 || cfg.Name != "agents-1" {
		t.Error(cfg)
	}
}

// switchedOn returns the sample with the "#" right before an option's name
// taken away.
func switchedOn(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(samplePath)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^( *)#((?:- |  )?[a-z_]+: )`).ReplaceAllString(string(text), "$1$2")
}

func TestTheSampleHasEveryOptionWithItsDefault(t *testing.T) {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(switchedOn(t)), &root); err != nil {
		t.Fatal(err)
	}
	// different are the values that are not the default, since they say what a
	// user has to say.
	different := map[string]bool{"name": true, "upstream.url": true, "rules[0].session": true, "rules[0].preset": true}

	var walk func(node *yaml.Node, value reflect.Value, path, above string)
	walk = func(node *yaml.Node, value reflect.Value, path, above string) {
		for name, f := range tagged(value.Type()) {
			key := join(path, name)
			node, above := node, above
			if key == "rules[0].preset" { // it has an entry of its own
				_, rules := member(root.Content[0], "rules")
				node = rules.Content[2]
				above = node.HeadComment
			}
			keyNode, option := member(node, name)
			if option == nil {
				t.Errorf("%s is missing", key)
				continue
			}
			comment := keyNode.HeadComment
			if keyNode == node.Content[0] {
				comment = above + "\n" + comment
			}
			if len(strings.TrimSpace(comment)) < 20 {
				t.Errorf("%s has no comment", key)
			}
			field := value.FieldByIndex(f.Index)
			switch f.Type.Kind() {
			case reflect.Struct:
				walk(option, field, key, "")
			case reflect.Slice:
				if f.Type.Elem().Kind() == reflect.String {
					if !strings.Contains(comment, "# Default: none") || field.Len() > 0 {
						t.Errorf("%s: the default is %v, and its comment says\n%s", key, field, comment)
					}
					continue
				}
				if f.Type.Elem() == reflect.TypeFor[*account.User]() {
					for of := range tagged(f.Type.Elem().Elem()) {
						if !strings.Contains(comment, "\n#   "+of+" ") {
							t.Errorf("users: the comment does not say what %s is", of)
						}
					}
					continue
				}
				walk(option.Content[0], reflect.ValueOf(rule.Default()), key+"[0]", option.Content[0].HeadComment)
			default:
				checkDefault(t, key, comment, option.Value, field, different[key])
			}
		}
	}
	walk(root.Content[0], reflect.ValueOf(*defaults()), "", "")
}

// checkDefault compares the default that the comment names with the one in the
// code, and with the sample's value.
func checkDefault(t *testing.T, key, comment, value string, field reflect.Value, different bool) {
	t.Helper()
	if strings.Contains(comment, "# Required") {
		if field.String() != "" {
			t.Errorf("%s is said to be required but has the default %v", key, field)
		}
		return
	}
	m := regexp.MustCompile(`(?m)^# Default: (.*)$`).FindStringSubmatch(comment)
	if m == nil {
		t.Errorf("%s has no default in its comment:\n%s", key, comment)
		return
	}
	if m[1] == "the host's name" {
		return
	}
	if got := normal(strings.Trim(m[1], `"`)); got != fmt.Sprint(field) {
		t.Errorf("%s: the comment says the default is %s, and it is %v", key, got, field)
	}
	if (normal(value) == fmt.Sprint(field)) == different {
		t.Errorf("%s: the value is %s and the default %v", key, value, field)
	}
}

// normal writes a time as fmt does, and leaves other text alone.
func normal(text string) string {
	if d, err := time.ParseDuration(text); err == nil && strings.Trim(text, "0123456789") != "" {
		return d.String()
	}
	return text
}

func member(node *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}
