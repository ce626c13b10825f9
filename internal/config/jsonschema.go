package config

import (
	"reflect"
	"strings"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/size"
)

// What the texts of an option look like, as JSON schemas have it.
const (
	timePattern = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	sizePattern = `^[0-9]+([kKmMgG]?[bB]|[kKmMgG])?$`
	namePattern = `^[A-Za-z0-9_.-]{1,64}$`
)

// JSONSchemas describe the file to whoever checks it before a proxy does: every option but the rules, and one entry of the
// rules. They say less than Load: not what options mean together.
func JSONSchemas() (options, entry map[string]any) {
	options = schemaOf(reflect.TypeFor[Config](), "")
	delete(options["properties"].(map[string]any), "rules")
	entry = schemaOf(reflect.TypeFor[rule.Rule](), "rules.")
	entry["if"] = map[string]any{"not": map[string]any{"required": []string{"preset"}}}
	entry["then"] = map[string]any{"required": []string{"name", "prefix"}}
	return options, entry
}

// words are the options that are one of a few.
func words() map[string][]string {
	return map[string][]string{
		"lock.provider":         kindNames(),
		"lock.on_provider_down": {onDownRefuse, onDownPass},
		"upstream.cluster":      {ClusterHidden, ClusterPassthrough},
		"log.level":             {"debug", "info", "warn", "error"},
		"log.format":            {"text", "json"},
		"telemetry.protocol":    {ProtocolGRPC, ProtocolHTTP},
		"rules.mode":            texts(rule.ModeLock, rule.ModeFence, rule.ModeAuto, rule.ModeObserve, rule.ModePass),
		"rules.owner":           texts(rule.OwnerAuto, rule.OwnerConnection, rule.OwnerClient, rule.OwnerProxy),
		"rules.client_by":       texts(rule.ByAddress, rule.ByName),
		"rules.writes_per_read": texts(rule.One, rule.Many),
		"rules.scripts":         texts(rule.ScriptsRefuse, rule.ScriptsAllow),
		"rules.preset":          rule.PresetNames(),
	}
}

func texts[T ~string](all ...T) []string {
	list := make([]string, len(all))
	for i, text := range all {
		list[i] = string(text)
	}
	return list
}

// schemaOf describes a group of options.
func schemaOf(t reflect.Type, prefix string) map[string]any {
	properties := map[string]any{}
	for name, of := range group(t) {
		properties[name] = schemaOfOption(of, prefix+name)
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

func schemaOfOption(t reflect.Type, key string) map[string]any {
	if list, ok := words()[key]; ok {
		return map[string]any{"enum": list}
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": timePattern} // Load takes a bare 0, too, but no other number
	case reflect.TypeFor[size.Size]():
		return map[string]any{"type": []string{"string", "integer"}, "pattern": sizePattern}
	case reflect.TypeFor[[]string]():
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	}
	switch t.Kind() {
	case reflect.Struct:
		return schemaOf(t, key+".")
	case reflect.Slice: // the users
		entry := schemaOf(t.Elem().Elem(), key+".")
		entry["required"] = []string{"name"}
		return map[string]any{"type": "array", "items": entry}
	case reflect.Float64:
		return map[string]any{"type": "number", "minimum": 0}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		if name := key[strings.LastIndexByte(key, '.')+1:]; name == "name" && key != "users.name" {
			return map[string]any{"type": "string", "pattern": namePattern}
		}
		return map[string]any{"type": "string"}
	default: // another would be refused by the tests of setText
		return map[string]any{"type": "integer", "minimum": 0}
	}
}
