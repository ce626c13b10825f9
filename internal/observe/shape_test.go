package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestWhatIsVariableInAKeyIsRecognised(t *testing.T) {
	for key, want := range map[string]string{
		"agent:ctx:42:history":                                    "agent:ctx:*:history",
		"agent:ctx:550e8400-e29b-41d4-a716-446655440000":          "agent:ctx:*",
		"agent:ctx:thread-550e8400-e29b-41d4-a716-446655440000:x": "agent:ctx:thread-*:x",
		"sess:9f86d081884c7d65":                                   "sess:*",
		"session-42":                                              "session-*",
		"chats_user-7":                                            "chats_user-*",
		"{user1000}:following":                                    "{user1000}:following",
		"{1000}:following":                                        "{*}:following",
		"thread:{7}:3":                                            "thread:{*}:*",
		"chat:01JX0000000000000000000001":                         "chat:*",
		"sess:V1StGXR8_Z5jdHi6B-myT":                              "sess:*",
		"log:2026-01-31":                                          "log:*",
		"log/2026.01.31/app":                                      "log/*/app",
		"user:a.b@example.org:cart":                               "user:*:cart",
		"phone:+4912345":                                          "phone:*",
		"ip:10.0.0.1":                                             "ip:*",
		"config":                                                  "config",
		"api:v2:limits":                                           "api:v2:limits",
		"a::b":                                                    "a::b",
		"a:":                                                      "a:",
		"":                                                        "",
		"bin:\x01\xff":                                            "bin:*",
		strings.Repeat("a:", 40):                                  strings.Repeat("a:", maxDepth) + "*",
	} {
		if got := text(segments([]byte(key))); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

// patterns are those of the keys.
func patterns(keys ...string) (all []string) {
	var tr tree
	for _, key := range keys {
		tr.find([]byte(key)).present().sequences++
	}
	tr.settle()
	for labels, s := range tr.all {
		all = append(all, fmt.Sprintf("%s %d", text(labels), s.present().sequences))
	}
	return all
}

func numbered(format string, n int) (keys []string) {
	words := []string{"ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"}
	for i := range n {
		keys = append(keys, fmt.Sprintf(format, words[i%8]+words[i/8%8]+words[i/64%8]))
	}
	return keys
}

func TestNamesBecomeVariable(t *testing.T) {
	for name, test := range map[string]struct {
		keys []string
		want []string
	}{
		"what is fixed stays":     {[]string{"a:history", "a:state", "a:notes"}, []string{"a:history 1", "a:notes 1", "a:state 1"}},
		"too many names":          {numbered("chat:%s", 100), []string{"chat:* 100"}},
		"too many in the middle":  {numbered("chat:%s:log", 100), []string{"chat:*:log 100"}},
		"too many at the start":   {numbered("%s", 100), []string{"* 100"}},
		"numbered names":          {[]string{"chat:conv1", "chat:conv2", "chat:conv17"}, []string{"chat:conv* 3"}},
		"numbered at the start":   {[]string{"s1", "s2", "s3", "s4", "s5", "config"}, []string{"config 1", "s* 5"}},
		"few, with the same ends": {[]string{"c:al:log", "c:al:state", "c:bo:log", "c:bo:state"}, []string{"c:*:log 2", "c:*:state 2"}},
		"like those with numbers": {[]string{"c:7:log", "c:al:log"}, []string{"c:*:log 2"}},
		"environments":            {[]string{"prod:user:7", "test:user:8"}, []string{"prod:user:* 1", "test:user:* 1"}},
		"a few leaves":            {[]string{"chat:al", "chat:bo", "chat:cy", "chat:di"}, []string{"chat:* 4"}},
	} {
		if got := patterns(test.keys...); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestTreeIsBounded(t *testing.T) {
	var tr tree
	for i := range 200_000 {
		word := func(i int) string { return string([]byte{'a' + byte(i%20), 'k' + byte(i/20%13), 'y'}) }
		key := word(i) + ":" + word(i/31) + ":" + word(i/977) + ":" + word(i/7919) + ":" + word(i*7)
		tr.find([]byte(key)).present().reads++
	}
	total, nodes := int64(0), 0
	for _, s := range tr.all {
		total += s.reads
	}
	if tr.rest != nil {
		total += tr.rest.reads
	}
	var count func(n *node)
	count = func(n *node) {
		nodes += len(n.children)
		for _, c := range n.children {
			count(c)
		}
	}
	count(&tr.root)
	if total != 200_000 || nodes > maxNodes || nodes != tr.nodes {
		t.Errorf("%d of 200000 reads, %d nodes, counted as %d", total, nodes, tr.nodes)
	}
}
