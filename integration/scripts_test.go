//go:build integration

package integration

import (
	"strings"
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// Case 68.
func TestScriptsAreFencedByTheKeysThatTheyDeclare(t *testing.T) {
	t.Parallel()
	const set = "return redis.call('set', KEYS[1], ARGV[1])"
	server := harness.StartRedis(t)
	proxyA, proxyB := two(t, server, longHolds...)
	a, _ := connect(t, "A", proxyA.Addr)
	b, _ := connect(t, "B", proxyB.Addr)
	a.does("OK", "EVAL", set, "1", "ctx:s", "before")
	a.does("before", "GET", "ctx:s")
	recordOf(t, server, "ctx:s").loses(recordOf(t, server, "ctx:s").hold) // as if the lease had ended
	b.does("OK", "EVAL", set, "1", "ctx:s", "B's")
	a.fails("FENCED", "EVAL", set, "1", "ctx:s", "A's, stale")
	wantValue(t, server, "ctx:s", "B's")
	a.fails("NOSCRIPT", "EVALSHA", strings.Repeat("0", 40), "1", "ctx:s", "x")
}

func TestAScriptThatNamesGuardedKeysAndDeclaresNoneIsRefused(t *testing.T) {
	t.Parallel()
	const free = "return redis.call('set', KEYS[1], ARGV[1])"
	for policy, passes := range map[string]bool{"refuse": false, "allow": true} {
		t.Run(policy, func(t *testing.T) {
			server := harness.StartRedis(t)
			proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("scripts: " + policy)})
			a, _ := connect(t, "A", proxy.Addr)
			sha := server.Client().ScriptLoad(t.Context(), "return redis.call('set', ARGV[1], 'x')").Val()
			for name, call := range map[string][]string{
				"in its text":                   {"EVAL", "return redis.call('set', 'ctx:' .. ARGV[1], 'x')", "0", "s"},
				"in an argument":                {"EVAL", "return redis.call('set', ARGV[1], 'x')", "0", "ctx:s"},
				"in an argument of a known one": {"EVALSHA", sha, "0", "ctx:s"},
				"beside a free key":             {"EVAL", "redis.call('set', KEYS[1], 'x') return redis.call('set', ARGV[1], 'x')", "1", "free", "ctx:s"},
			} {
				if passes {
					a.does("OK", call...)
				} else if text := a.fails("FENCEDENIED", call...); !strings.Contains(text, "scripts: allow") {
					t.Errorf("%s: the refusal names no remedy: %s", name, text)
				}
			}
			if n := server.Client().Exists(t.Context(), "ctx:s", "free").Val(); passes != (n == 2) || !passes && n != 0 {
				t.Errorf("%d keys were written", n)
			}
			a.does("OK", "EVAL", free, "1", "other", "ctx is not a key")
			a.does("OK", "EVAL", free, "1", "ctx:declared", "ctx:s") // what declares keys of the rule is taken at its word
			a.does([]any{"OK"}, transactionOf(a, "EVAL", free, "1", "ctx:declared", "y")...)
		})
	}
}

// What a script makes up inside can't be seen, but what it names can.
func TestAScriptThatNamesReservedKeysIsRefused(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t)
	proxy := harness.StartProxy(t, harness.ProxyOptions{Redis: server, ConfigYAML: guarding("scripts: allow")})
	session := recordOf(t, server, "ctx:s")
	holder, _ := connect(t, "holder", proxy.Addr)
	holder.does(nil, "GET", "ctx:s")
	before := session.get(session.hold)
	client, _ := connect(t, "client", proxy.Addr)
	sha := server.Client().ScriptLoad(t.Context(), "return redis.call('del', ARGV[1])").Val()
	calls := [][]string{
		{"EVAL", "return redis.call('del', '" + session.hold + "')", "0"},
		{"EVAL", "return redis.call('del', 'fence-proxy:' .. ARGV[1])", "0", "x"},
		{"EVAL", "return redis.call('del', ARGV[1])", "0", session.hold},
		{"EVAL", "return redis.call('del', ARGV[1])", "1", "free", session.hold},
		{"EVAL", "return redis.call('del', ARGV[1])", "1", "ctx:s", session.hold},
		{"EVALSHA", sha, "0", session.hold},
		{"SCRIPT", "LOAD", "return redis.call('del', 'fence-proxy:' .. ARGV[1])"},
	}
	if knows(t, server, "function") {
		calls = append(calls,
			[]string{"EVAL_RO", "return redis.call('get', 'fence-proxy:' .. ARGV[1])", "0", "x"},
			[]string{"FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return redis.call('del', 'fence-proxy:x') end)"})
	}
	for _, call := range calls {
		client.fails("FENCEDENIED", call...)
	}
	client.does("OK", "MULTI")
	client.fails("FENCEDENIED", "EVAL", "return redis.call('del', ARGV[1])", "0", session.hold)
	client.fails("EXECABORT", "EXEC")
	if after := session.get(session.hold); after == "" || after != before {
		t.Errorf("the record changed from %q to %q", before, after)
	}
	client.does("see fence-proxy: it is said", "EVAL", "return ARGV[1]", "0", "see fence-proxy: it is said") // which is no key
}

// transactionOf sends a command in a transaction, up to its EXEC.
func transactionOf(p *party, command ...string) []string {
	p.t.Helper()
	p.does("OK", "MULTI")
	p.does("QUEUED", command...)
	return []string{"EXEC"}
}
