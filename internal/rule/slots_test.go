package rule_test

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

func TestWhichSessionsSpanSlots(t *testing.T) {
	for pattern, spans := range map[string]bool{
		"":                       false,
		"ctx:{<s>}:*":            false,
		"ctx:{<tenant>:<s>}:*":   false,
		"ctx:{a<s>b}*":           false,
		"{ctx}:<s>:*":            false,
		"ctx:<s>:*":              true,
		"ctx:<s>":                true,
		"ctx:{<s>:*":             true,
		"ctx:{<s>:*}:x":          true,
		"ctx:*:{<s>}":            true,
		"ctx:<tenant>:{<s>}:x":   true, // the tenant may have a brace in it
		"ctx:{}<s>:{x}":          true,
		"ctx:{*:<s>}:x":          true,
		"ctx:}{<s>}:*":           false,
		"ctx:{<tenant>}:{<s>}:*": false,
	} {
		r := rule.Rule{Name: "chat", Prefix: "ctx:", Session: pattern}
		if pattern != "" && pattern[0] == '{' {
			r.Prefix = "{ctx}:"
		}
		compiled, err := rule.New(r)
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		if compiled.Spans() != spans {
			t.Errorf("%q: spans %v", pattern, !spans)
		}
	}
}
