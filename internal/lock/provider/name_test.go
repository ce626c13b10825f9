package provider

import (
	"regexp"
	"strings"
	"testing"
)

func TestAPlainNameIsPlainAndNobodyElses(t *testing.T) {
	plain := regexp.MustCompile(`^[A-Za-z0-9._%~-]{1,200}$`)
	long := strings.Repeat("x", longestName)
	sessions := []string{
		"", ".", "..", "...", "a", "A", "%", "%25", "~", "/", "//", "a/b", "a%2Fb", "a b", "\x00", "\xff\xfe", "ä", "ctx:a", "ctx:a:",
		long, long + "x", long + "y", strings.Repeat("/", longestName), strings.Repeat("/", longestName+1), plainName(long + "x"),
	}
	seen := map[string]string{}
	for _, session := range sessions {
		name := plainName(session)
		if !plain.MatchString(name) || name == "." || name == ".." {
			t.Errorf("the name of %.40q is %q", session, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%.40q and %.40q share the name %q", session, other, name)
		}
		seen[name] = session
	}
	if name := plainName("agent:ctx-7_b.c"); name != "agent%3Actx-7_b.c" {
		t.Errorf("a session can't be read in its name %q", name)
	}
}
