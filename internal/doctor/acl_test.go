package doctor

import (
	"context"
	"slices"
	"testing"
)

func TestWhoMayWriteWhichKeys(t *testing.T) {
	categories := func(_ context.Context, category string) ([]string, error) {
		return map[string][]string{
			"write": {"set", "del", "lpush", "xgroup"}, "string": {"get", "set"}, "list": {"lpush", "lrange"}, "read": {"get", "lrange"},
		}[category], nil
	}
	for line, want := range map[string]string{
		"user u on nopass ~* &* +@all":                                  "set",
		"user u on #5e88 allkeys allchannels allcommands":               "set",
		"user u off #5e88 ~* &* +@all":                                  "",
		"user u on #5e88 ~agent:ctx:* -@all +@list":                     "lpush",
		"user u on #5e88 ~agent:ctx:42:* -@all +del":                    "del",
		"user u on #5e88 ~agent:* -@all +@read":                         "",
		"user u on #5e88 ~agent:* +@all -@write":                        "",
		"user u on #5e88 ~agent:* +@all -@write +lpush":                 "lpush",
		"user u on #5e88 ~agent:* -@all +xgroup|create":                 "xgroup",
		"user u on #5e88 ~other:* +@all":                                "",
		"user u on #5e88 %R~agent:ctx:* ~other:* +@all":                 "",
		"user u on #5e88 %RW~agent:ctx:* -@all +set":                    "set",
		"user u on #5e88 %W~*:ctx:* -@all +set":                         "set",
		"user u on #5e88 ~agent:ct -@all +set":                          "",
		"user u on #5e88 ~agent\\:ctx\\:x -@all +set":                   "set",
		"user u on #5e88 ~agent:\\* -@all +set":                         "",
		"user u on #5e88 ~x resetchannels -@all +get (~agent:* +@list)": "lpush",
		"user u on #5e88 ~agent:* -@all +get (~x +@all)":                "",
	} {
		u, ok := parseUser(line)
		if !ok || u.name != "u" {
			t.Fatalf("%s: %+v", line, u)
		}
		command, reached, err := u.writes(t.Context(), []string{"agent:ctx:", "jobs:"}, categories)
		if err != nil {
			t.Fatal(err)
		}
		if !u.on {
			command = ""
		}
		if command != want {
			t.Errorf("%s: writes by %q, want %q", line, command, want)
		}
		if command != "" && !slices.Contains(reached, "agent:ctx:") {
			t.Errorf("%s: reaches %q", line, reached)
		}
	}
}

func TestALineThatIsNoUserIsPassedOver(t *testing.T) {
	if _, ok := parseUser("something else"); ok {
		t.Error("taken for a user")
	}
}
