//go:build integration

package integration

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// recipe are the commands of docs/acl.md under a heading, in blocks of a language.
func recipe(t *testing.T, heading, language string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/acl.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	if !found || len(commands) == 0 {
		t.Fatalf("docs/acl.md has no commands under %q", heading)
	}
	return commands
}

// carryOut says the commands of a recipe to a Redis, as its operator once there is one.
func carryOut(t *testing.T, server *harness.Redis, commands []string) {
	t.Helper()
	as := func(o *redis.Options) {
		if server.Client().Ping(t.Context()).Err() != nil {
			o.Username, o.Password = "operator", "and-a-third"
		}
	}
	client := server.Client(as)
	channels := client.Do(t.Context(), "ACL", "SETUSER", "probe", "&*").Err() == nil // since 6.2
	client.Do(t.Context(), "ACL", "DELUSER", "probe")
	for _, command := range commands {
		var args []any
		for _, word := range strings.Fields(command) {
			if channels || !strings.HasPrefix(word, "&") {
				args = append(args, word)
			}
		}
		if err := client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
	}
}

// The recipe of docs/acl.md: guarded keys can be written through the proxy alone.
func TestTheRecipeLetsGuardedKeysBeWrittenThroughTheProxyAlone(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	carryOut(t, server, recipe(t, "The recipe: one user for the proxy", "redis"))
	reads := knows7(t, server)
	if reads {
		carryOut(t, server, recipe(t, "The recipe: one user for the proxy", "redis7"))
	}
	proxy := harness.StartProxy(t, harness.ProxyOptions{
		Upstream: "redis://fence:choose-one@" + server.Addr, ConfigYAML: ruleFor("agent:ctx:", "mode: lock", "wait: 60s"),
	})
	agent, _ := connect(t, "agent", proxy.Addr)
	agent.does(nil, "GET", "agent:ctx:1")
	agent.does("OK", "SET", "agent:ctx:1", "fenced")
	agent.does("OK", "SET", "app:x", "free")
	agent.fails("NOPERM", "SET", "elsewhere", "v")

	anybody, _ := connect(t, "anybody", server.Addr)
	anybody.fails("NOAUTH", "SET", "agent:ctx:1", "around")
	app, _ := connect(t, "app", server.Addr)
	app.does("OK", "AUTH", "app", "choose-another")
	app.does("OK", "SET", "app:y", "v")
	app.does("OK", "SET", "app:l", "v")
	for _, around := range []string{
		"SET agent:ctx:1 around", "DEL agent:ctx:1", "APPEND agent:ctx:1 x", "RENAME app:y agent:ctx:1", "RENAME agent:ctx:1 app:z", "EXPIRE agent:ctx:1 1",
		"SORT app:none STORE agent:ctx:1", "RESTORE agent:ctx:1 0 x REPLACE", "MOVE agent:ctx:1 1", "SUNIONSTORE agent:ctx:1 app:s", "DEL fence-proxy:{chat:agent:ctx:1}:t",
		"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "MIGRATE 127.0.0.1 1 agent:ctx:1 0 1", "ACL SETUSER app ~*", "CONFIG SET requirepass x", "DEBUG SLEEP 0", "REPLICAOF NO ONE",
		"MODULE LIST", "SHUTDOWN NOSAVE", "SAVE", "CLIENT KILL TYPE normal",
	} {
		app.sends(strings.Fields(around)...)
		if refusal, failed := app.reply().(harness.ReplyError); !failed || !strings.HasPrefix(string(refusal), "NOPERM") && !strings.HasPrefix(string(refusal), "ERR") {
			t.Errorf("%s: %v", around, refusal)
		}
	}
	for _, script := range []string{"return redis.call('set', KEYS[1], 'around')", "return redis.pcall('del', KEYS[1])"} {
		app.sends("EVAL", script, "1", "agent:ctx:1")
		app.reply()
	}
	app.does("OK", "MULTI")
	app.fails("NOPERM", "SET", "agent:ctx:1", "around")
	app.fails("EXECABORT", "EXEC")
	if reads {
		app.does("fenced", "GET", "agent:ctx:1")
	}
	operator := server.Client(func(o *redis.Options) { o.Username, o.Password = "operator", "and-a-third" })
	if got := operator.Get(t.Context(), "agent:ctx:1").Val(); got != "fenced" {
		t.Errorf("the value is %q", got)
	}

	code, findings := harness.RunProxy(t, "doctor", "--config", proxy.Config, "--operator", "redis://operator:and-a-third@"+server.Addr)
	if code != 0 || !strings.Contains(findings, "user operator may write agent:ctx:*") || strings.Contains(findings, "user app ") {
		t.Errorf("the doctor says (%d):\n%s", code, findings)
	}
}

// knows7 asks a server for the ACL of 7.0.
func knows7(t *testing.T, server *harness.Redis) bool {
	t.Helper()
	operator := server.Client(func(o *redis.Options) { o.Username, o.Password = "operator", "and-a-third" })
	err := operator.Do(t.Context(), "ACL", "SETUSER", "probe", "%R~x").Err()
	operator.Do(t.Context(), "ACL", "DELUSER", "probe")
	return err == nil
}

func ruleFor(prefix string, options ...string) string {
	return fmt.Sprintf("rules:\n  - {name: chat, prefix: %q, %s}\n", prefix, strings.Join(options, ", "))
}

// leastRights are what the proxy's own user needs, as docs/acl.md has it.
func leastRights(t *testing.T) (rights []string) {
	t.Helper()
	words := strings.Fields(recipe(t, "The least rights", "redis")[0])
	return words[6:] // ACL SETUSER fence-least reset on >choose-one …
}

// guardsAsClient has two clients who log in as the agent of docs/acl.md contend for a session, one of which waits.
func guardsAsClient(t *testing.T, server *harness.Redis, url string) (err string) {
	t.Helper()
	config := ruleFor("agent:ctx:", "mode: lock", "wait: 60s", "owner: connection")
	file := t.TempDir() + "/config.yaml"
	text := "listen: \"127.0.0.1:0\"\nadmin: \"\"\nupstream: {url: \"" + url + "\"}\n" + config
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, output := harness.RunProxy(t, "doctor", "--config", file); code != 0 && strings.Contains(output, "may not do what the fence needs") {
		return output
	}
	proxy := harness.StartProxy(t, harness.ProxyOptions{Upstream: url, ConfigYAML: config})
	server.Client(func(o *redis.Options) { o.Username, o.Password = "operator", "and-a-third" }).Del(t.Context(), "agent:ctx:1")
	a, _ := connect(t, "A", proxy.Addr)
	b, _ := connect(t, "B", proxy.Addr)
	a.does("OK", "AUTH", "agent", "secret")
	b.does("OK", "AUTH", "agent", "secret")
	a.does(nil, "GET", "agent:ctx:1")
	b.sends("GET", "agent:ctx:1")
	a.does("OK", "SET", "agent:ctx:1", "A's")
	b.hears("A's")
	b.does("OK", "SET", "agent:ctx:1", "B's")
	return ""
}

// What docs/acl.md calls the least rights is enough, and each of them is needed.
func TestTheLeastRightsAreEnoughAndEachIsNeeded(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	commands := append(recipe(t, "The least rights", "redis"), recipe(t, "Agents with users of their own", "redis")...)
	carryOut(t, server, append(commands, "ACL SETUSER operator reset on >and-a-third ~* &* +@all"))
	url := "redis://fence-least:choose-one@" + server.Addr
	if refusal := guardsAsClient(t, server, url); refusal != "" {
		t.Fatalf("the least rights are not enough: %s", refusal)
	}
	rights := leastRights(t)
	for _, right := range rights {
		if !strings.HasPrefix(right, "+") {
			continue
		}
		var without strings.Builder
		for _, other := range rights {
			if other != right {
				without.WriteString(" " + other)
			}
		}
		carryOut(t, server, []string{"ACL SETUSER fence-least reset on >choose-one" + without.String()})
		if code, output := harness.RunProxy(t, "doctor", "--upstream", url); code == 0 || !strings.Contains(output, "may not do what the fence needs") {
			t.Errorf("without %s the doctor says:\n%s", right, output)
		}
	}
}
