package config

import (
	"bytes"
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/fence-proxy/fence-proxy/internal/account"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// Shown is a configuration for people and their tools, with what is secret masked.
type Shown struct {
	Options []ShownOption       `json:"options"` // all but the rules
	Rules   []map[string]string `json:"rules"`   // each one's options, by name
	Users   []map[string]string `json:"users"`   // the same; of passwords how many
	Notes   []string            `json:"notes"`
}

// ShownOption is one option.
type ShownOption struct {
	Key     string `json:"key"` // as in upstream.url
	Value   string `json:"value"`
	Default bool   `json:"default"` // the value is the default
	Live    bool   `json:"live"`    // a proxy that runs takes over a change
}

// Show returns the configuration as it may be shown.
func (c *Config) Show() Shown {
	s := Shown{Notes: c.Notes(), Options: []ShownOption{}, Rules: []map[string]string{}, Users: []map[string]string{}}
	def := defaults()
	for o := range c.inForce() {
		s.Options = append(s.Options, ShownOption{
			Key: o.key, Value: written(o.field(c), c.masked(o)), Default: textOf(o.field(c)) == textOf(o.field(def)), Live: isLive(o.key),
		})
	}
	for _, r := range c.Rules {
		entry := map[string]string{}
		for name, f := range ruleOptions() {
			field := reflect.ValueOf(r).Elem().FieldByIndex(f.Index)
			entry[name] = written(field, textOf(field))
		}
		s.Rules = append(s.Rules, entry)
	}
	for _, u := range c.Users {
		s.Users = append(s.Users, shown(u))
	}
	return s
}

// written is a value's text as people write it.
func written(field reflect.Value, text string) string {
	switch value := field.Interface().(type) {
	case time.Duration:
		return rule.Text(value)
	case []string:
		if strings.HasPrefix(text, "[") {
			return strings.Trim(text, "[]")
		}
		return strings.Join(value, ", ")
	}
	return text
}

// YAML is the configuration as a file, with what is secret masked.
func (c *Config) YAML() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for o := range c.inForce() {
		path := strings.Split(o.key, ".")
		group := root
		for _, name := range path[:len(path)-1] {
			group = groupIn(group, name)
		}
		enter(group, path[len(path)-1], o.field(c), c.masked(o))
	}
	rules := &yaml.Node{Kind: yaml.SequenceNode}
	for _, r := range c.Rules {
		node := &yaml.Node{Kind: yaml.MappingNode}
		for name, f := range ruleOptions() {
			if field := reflect.ValueOf(r).Elem().FieldByIndex(f.Index); name != "preset" {
				path := strings.Split(name, ".")
				group := node
				for _, outer := range path[:len(path)-1] {
					group = groupIn(group, outer)
				}
				enter(group, path[len(path)-1], field, textOf(field))
			}
		}
		rules.Content = append(rules.Content, node)
	}
	if len(c.Users) > 0 {
		root.Content = append(root.Content, scalar("users"), usersYAML(c.Users))
	}
	root.Content = append(root.Content, scalar("rules"), rules)
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(root)
	return b.Bytes(), err
}

// usersYAML is the users as in a file, with their passwords masked.
func usersYAML(users []*account.User) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, u := range users {
		node := &yaml.Node{Kind: yaml.MappingNode}
		for name, f := range tagged(reflect.TypeFor[account.User]()) {
			field := reflect.ValueOf(u).Elem().FieldByIndex(f.Index)
			if name == "passwords" {
				field = reflect.ValueOf(slices.Repeat([]string{masked}, len(u.Passwords)))
			}
			enter(node, name, field, textOf(field))
		}
		list.Content = append(list.Content, node)
	}
	return list
}

// groupIn returns the group of a name, which it makes if need be.
func groupIn(group *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(group.Content); i += 2 {
		if group.Content[i].Value == name {
			return group.Content[i+1]
		}
	}
	inner := &yaml.Node{Kind: yaml.MappingNode}
	group.Content = append(group.Content, scalar(name), inner)
	return inner
}

func enter(group *yaml.Node, name string, field reflect.Value, text string) {
	value := scalar(written(field, text))
	switch field.Kind() {
	case reflect.String:
		value = quoted(value.Value)
	case reflect.Slice:
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, entry := range field.Interface().([]string) {
			list.Content = append(list.Content, quoted(redacted(name, entry)))
		}
		value = list
	default:
	}
	group.Content = append(group.Content, scalar(name), value)
}

func quoted(text string) *yaml.Node {
	node := scalar(text)
	if node.Style = yaml.DoubleQuotedStyle; !utf8.ValidString(text) {
		node.Tag, node.Value = "!!binary", base64.StdEncoding.EncodeToString([]byte(text))
	}
	return node
}

func scalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }
