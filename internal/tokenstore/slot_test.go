package tokenstore_test

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// The slots are those that CLUSTER KEYSLOT of Redis 7.0 tells.
func TestSlotsAreRedisClusters(t *testing.T) {
	same := func(a, b string) {
		t.Helper()
		if x, y := tokenstore.SlotOf([]byte(a)), tokenstore.SlotOf([]byte(b)); x != y {
			t.Errorf("%q is in %q and %q in %q", a, x, b, y)
		}
	}
	for _, key := range []string{"a", "123456789", "{x}{y}", "a{b}c", "{}a", "a{}b", "x{y", "}{", "{{x}}"} {
		slot := tokenstore.SlotOf([]byte(key))
		same(key, string(slot))
		r := tokenstore.NewRecord(tokenstore.Area{Slot: slot}, "chat", "a}{b")
		for _, of := range r.Keys() {
			same(key, of)
		}
	}
	same("a{b}c", "b")
	same("{{x}}", "{x")
}
