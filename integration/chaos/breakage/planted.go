package breakage

// Promise is something that the fence promises, and how it is broken.
type Promise struct {
	Name    string
	Says    string // what is promised
	Broken  string // what is done instead
	Patches []Patch
}

const (
	checkLua  = "internal/tokenstore/lua/check.lua"
	sequences = "internal/lock/sequence.go"
	outcome   = "internal/proxy/outcome.go"
	reads     = "internal/proxy/read.go"
)

// All are the promises of DESIGN.md ("The rule", "Invariants"), but for the sixth invariant: that is a limit, and no promise.
var All = []Promise{
	{
		"newest-grant", "a write is applied only under the newest grant",
		"its grant is compared with the last one stored, as is usual",
		[]Patch{
			{checkLua, "elseif g ~= ARGV[1] then", "elseif tonumber(sg) > grant then"},
		},
	},
	{
		"greater-token", "a write is applied only if its token is greater than the last one stored",
		"the same token counts twice, and what was lost is sent again",
		[]Patch{
			{checkLua, "tonumber(ss) >= tonumber(ARGV[2])", "tonumber(ss) > tonumber(ARGV[2])"},
			{outcome, "\tx := c.exchange\n\tvar a tokenstore.Aftermath\n", `	if breakage.Is("greater-token") && errors.Is(l.err, upstream.ErrLost) && c.replace(l) {
		return true, nil
	}
	x := c.exchange
	var a tokenstore.Aftermath
`},
		},
	},
	{
		"one-step", "check and write are one atomic step",
		"the record is not under WATCH, so that a bad check does not hold the write back",
		[]Patch{
			{"internal/tokenstore/commit.go", "func appendWatch(dst []byte, parts []Commit) []byte {\n", `func appendWatch(dst []byte, parts []Commit) []byte {
	if breakage.Is("one-step") {
		return append(dst, "*1\r\n$4\r\nPING\r\n"...)
	}
`},
		},
	},
	{
		"first-read", "a grant is issued no later than the first read that it covers",
		"each write is granted when it is applied",
		[]Patch{
			{sequences, "\ts.used = now\n\tswitch s.state {\n\tcase Held:\n\t\treturn Token{", `	s.used = now
	if breakage.Is("first-read") {
		return Token{Seq: 1}, nil
	}
	switch s.state {
	case Held:
		return Token{`},
		},
	},
	{
		"stored-since", "what was read without a hold is written only if nobody has written since",
		"that is not compared",
		[]Patch{
			{checkLua, "verdict = 'changed'", "verdict = 'good'"},
		},
	},
	{
		"held-at-write", "a write that holds nothing waits for who holds",
		"it does not",
		[]Patch{
			{checkLua, "verdict = 'held'", "verdict = 'good'"},
		},
	},
	{
		"one-holder", "a session is held by one owner",
		"it is granted though it is held",
		[]Patch{
			{"internal/tokenstore/lua/beginfast.lua", "redis.call('exists', KEYS[2], KEYS[3]) == 0", "true"},
		},
	},
	{
		"used-up", "a grant that was released is used up",
		"it stays the newest",
		[]Patch{
			{"internal/tokenstore/lua/endhold.lua", "g = newer(g, floor)", ""},
		},
	},
	{
		"grants-grow", "1. grants only grow, also when the record was lost",
		"they are the last one and one more",
		[]Patch{
			{"internal/tokenstore/lua/clock.lua", "math.max(g + 1, floor + 1, t[1] * 1000000 + t[2])", "g + 1"},
			{"internal/tokenstore/lua/beginfast.lua", "math.max(g + 1, ARGV[5] + 1, t[1] * 1000000 + t[2])", "g + 1"},
		},
	},
	{
		"missing-record", "2. a missing record refuses the old holder's write",
		"it is applied",
		[]Patch{
			{checkLua, "  if not v then\n    verdict = 'missing'", "  if not v then\n    verdict = 'good'"},
		},
	},
	{
		"no-silent-hold", "3. a broken sequence is reported, and no hold is taken again in its middle",
		"it is taken again, and nothing is said",
		[]Patch{
			{sequences, "\tif s.state == Held && t.Grant == s.grant {\n", `	if s.state == Held && breakage.Is("no-silent-hold") {
		s.grant, s.seq = t.Grant, max(s.seq, t.StoredSeq)
	}
	if s.state == Held && t.Grant == s.grant {
`},
			{sequences, "\tcase Broken:\n\t\treturn 0, tokenstore.Basis{}, s.report()\n", `	case Broken:
		if !breakage.Is("no-silent-hold") {
			return 0, tokenstore.Basis{}, s.report()
		}
		s.broken = nil
		s.setState(Free)
`},
			{sequences, "\tif !b.Continuous {\n\t\ts.reads.supersede", "\tif !b.Continuous && !breakage.Is(\"no-silent-hold\") {\n\t\ts.reads.supersede"},
			{reads, "a.how == lock.Resume && !(b.Granted && b.Continuous):", "a.how == lock.Resume && !(b.Granted && (b.Continuous || breakage.Is(\"no-silent-hold\"))):"},
			{reads, "!b.Granted || a.how == lock.Resume && !b.Continuous {", "!b.Granted || a.how == lock.Resume && !b.Continuous && !breakage.Is(\"no-silent-hold\") {"},
		},
	},
	{
		"unknown-is-said", "4. an unknown outcome is never reported as success",
		"what was lost counts as applied",
		[]Patch{
			{outcome, "\tswitch {\n\tcase x.Streamed: // the EXEC was answered\n", `	if breakage.Is("unknown-is-said") && !x.Streamed {
		return false, c.wasApplied(l, tokenstore.Aftermath{Fate: tokenstore.Applied, Grants: make([]uint64, len(l.parts))})
	}
	switch {
	case x.Streamed: // the EXEC was answered
`},
		},
	},
	{
		"never-twice", "4. a write is not sent again unless it can't be applied twice",
		"it is sent again when its connection breaks",
		[]Patch{
			{outcome, "\tcase !errors.Is(l.err, upstream.ErrLost) || c.out.failed()", `	case breakage.Is("never-twice") && errors.Is(l.err, upstream.ErrLost) && c.replace(l):
		return true, nil
	case !errors.Is(l.err, upstream.ErrLost) || c.out.failed()`},
		},
	},
	{
		"unguarded-untouched", "5. unguarded traffic is untouched",
		"unguarded SETs are acknowledged and dropped",
		[]Patch{
			{"internal/proxy/pass.go", "\tswitch shared, err := c.share(cmd, req); {\n", `	if breakage.Is("unguarded-untouched") && name == "set" {
		return c.local([]byte("+OK\r\n"))
	}
	switch shared, err := c.share(cmd, req); {
`},
		},
	},
	{
		"unknown-command", "5. a command that the proxy does not know is not let through on a guarded key",
		"it is",
		[]Patch{
			{"internal/proxy/plan.go", "\tif c.mentions(args) {\n\t\treturn &deniedError{", "\tif c.mentions(args) && !breakage.Is(\"unknown-command\") {\n\t\treturn &deniedError{"},
		},
	},
	{
		"records-go", "7. fence records go away by themselves",
		"they stay",
		[]Patch{
			{"internal/tokenstore/lua/prelude.lua", "redis.call('set', T, g .. ' ' .. sg .. ' ' .. ss .. ' ' .. provider, 'px', ttl)", "redis.call('set', T, g .. ' ' .. sg .. ' ' .. ss .. ' ' .. provider)"},
			{"internal/tokenstore/lua/settlefast.lua", "ARGV[6], 'px', ARGV[4])", "ARGV[6])"},
		},
	},
	{
		"leases-end", "a hold ends with its lease when its proxy is gone",
		"it does not",
		[]Patch{
			{"internal/tokenstore/lua/prelude.lua", "'\\n' .. waiter .. '\\n' .. info, 'px', px)", "'\\n' .. waiter .. '\\n' .. info)"},
			{"internal/tokenstore/lua/beginfast.lua", "'\\n\\n' .. ARGV[2], 'px', ARGV[3])", "'\\n\\n' .. ARGV[2])"},
		},
	},
}
