package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

var updateSchema = flag.Bool("update", false, "write the chart's schema anew")

const chartSchema = "../../charts/fence-proxy/values.schema.json"

// What the proxy would refuse Helm should refuse already: so the chart's schema has the options from here.
func TestTheChartsSchemaHasEveryOption(t *testing.T) {
	text, err := os.ReadFile(chartSchema)
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string]any{}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	options, entry := JSONSchemas()
	defs := schema["$defs"].(map[string]any)
	defs["config"], defs["rule"], defs["preset"] = options, entry, map[string]any{"enum": rule.PresetNames()}
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(text, want.Bytes()) {
		return
	}
	if !*updateSchema {
		t.Fatalf("%s is not up to date: run go test ./internal/config -run TheChartsSchema -update", chartSchema)
	}
	if err := os.WriteFile(chartSchema, want.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheSchemasWordsAreThoseThatAreAccepted(t *testing.T) {
	for key, list := range words() {
		field, inRule := strings.CutPrefix(key, "rules.")
		if field == "preset" {
			continue
		}
		for _, word := range append(list, "nonsense") {
			text := key + ": " + word + "\n"
			if group, name, nested := strings.Cut(key, "."); nested {
				text = group + ": {" + name + ": " + word + "}\n"
			}
			if inRule {
				text = "rules: [{name: a, prefix: a, " + field + ": " + word + "}]\n"
			}
			_, err := assemble("config.yaml", contents{data: []byte(text)}, nil)
			if (err == nil) != (word != "nonsense") && !strings.Contains(text, "lock: {provider") {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for _, o := range options() {
		field := o.field(defaults()).Type()
		if _, listed := words()[o.key]; field.Kind() == reflect.String && field != reflect.TypeFor[string]() && !listed {
			t.Errorf("the words of %s are not listed", o.key)
		}
	}
	for name, f := range ruleOptions() {
		if _, listed := words()["rules."+name]; f.Type.Kind() == reflect.String && f.Type != reflect.TypeFor[string]() && !listed {
			t.Errorf("the words of a rule's %s are not listed", name)
		}
	}
}
