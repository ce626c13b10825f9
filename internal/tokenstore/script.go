package tokenstore

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/tidwall/redcon"
)

var (
	//go:embed lua/clock.lua
	clockLua string
	//go:embed lua/given.lua
	givenLua string
	//go:embed lua/prelude.lua
	preludeLua string
	//go:embed lua/beginfast.lua
	beginFastLua string
	//go:embed lua/begin.lua
	beginLua string
	//go:embed lua/check.lua
	checkLua string
	//go:embed lua/settlefast.lua
	settleFastLua string
	//go:embed lua/settle.lua
	settleLua string
	//go:embed lua/release.lua
	releaseLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/leave.lua
	leaveLua string
	//go:embed lua/look.lua
	lookLua string
	//go:embed lua/apart.lua
	apartLua string
	//go:embed lua/renewgrant.lua
	renewGrantLua string
	//go:embed lua/endhold.lua
	endHoldLua string
	//go:embed lua/once.lua
	onceLua string
	//go:embed lua/register.lua
	registerLua string
	//go:embed lua/checkgiven.lua
	checkGivenLua string
	//go:embed lua/passed.lua
	passedLua string
	//go:embed lua/migrate.lua
	migrateLua string
)

// allowOOM lets a script run on a store that is over its maxmemory (Redis 7.0 and later): a read
// must still be able to begin, and a hold to end, when memory is what is short. A commit is another
// matter: MULTI queues nothing then, be it a delete.
const allowOOM = "#!lua flags=allow-oom\n"

// dirtied does the same before Redis 7.0, which lets a script go on that has called a write of the kind that a full store carries
// out, though this one changes nothing.
const dirtied = "redis.pcall('zrem', KEYS[3], '')\n"

// script is one Lua script in the two forms in which it is sent.
type script struct {
	source  string
	evalsha []byte // "$7 EVALSHA $40 <sha>" as bulk strings, without the array header
	eval    []byte // "$4 EVAL $n <source>"
}

func newScript(header string, sources ...string) script {
	source := header
	for _, s := range sources {
		source += minify(s)
	}
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see the import
	s := script{source: source}
	s.evalsha = redcon.AppendBulkString(redcon.AppendBulkString(nil, "EVALSHA"), hex.EncodeToString(sum[:]))
	s.eval = redcon.AppendBulkString(redcon.AppendBulkString(nil, "EVAL"), source)
	return s
}

// minify drops comments and indentation: the check travels with every commit.
func minify(lua string) string {
	var b strings.Builder
	for line := range strings.Lines(lua) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// scripts are all scripts, in the dialect of one server.
type scripts struct {
	begin, check, settle, release, renew, leave, look script
	renewGrant, endHold, once                         script // what clients ask for in so many words
	migrate                                           script

	outside          bool
	register, passed script // where a lock provider elsewhere grants
}

// unchecked is in a check's place.
var unchecked = appendStrings(nil, "EVAL", "return 'good'", "0")

func newScripts(header string, outside bool) *scripts {
	grants, check := clockLua, checkLua
	if outside {
		grants, check = givenLua, checkGivenLua
	}
	with := func(sources ...string) script {
		return newScript(header, append([]string{grants, preludeLua}, sources...)...)
	}
	s := &scripts{
		check:   newScript(header, check),
		settle:  newScript(header, settleFastLua, grants, preludeLua, settleLua),
		release: with(releaseLua),
		renew:   with(renewLua),
		leave:   with(leaveLua),
		look:    with(lookLua),

		renewGrant: with(apartLua, renewGrantLua),
		endHold:    with(apartLua, endHoldLua),
		once:       newScript("", onceLua), // it is a client's command: a store that is full may refuse it
		migrate:    with(migrateLua),

		outside: outside,
	}
	if outside {
		s.register, s.passed = with(registerLua), with(passedLua)
	} else {
		s.begin = newScript(header, beginFastLua, grants, preludeLua, beginLua)
	}
	return s
}

// loaded lists the scripts that are called by digest.
func (s *scripts) loaded() []*script {
	begin := &s.begin
	if s.outside {
		begin = &s.register
	}
	return []*script{begin, &s.settle, &s.release, &s.renew, &s.leave, &s.look}
}
