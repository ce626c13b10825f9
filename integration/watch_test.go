//go:build integration

package integration

import (
	"testing"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// What an optimistic client does is answered as Redis does it, as long as its WATCH covers what it has read.
func TestATransactionThatIsStaleUnderItsOwnWatchGetsNil(t *testing.T) {
	t.Parallel()
	const config = `rules:
  - name: ctx
    prefix: "ctx:"
    session: "ctx:<session>:*"
    wait: 30s
`
	for _, protocol := range []string{"2", "3"} {
		for _, mode := range []string{"fence", "auto"} {
			for _, tc := range []struct {
				name   string
				before []string // what A does ahead of B's write
				write  string   // B's
				want   string
			}{
				{"read under it", []string{"WATCH ctx:s:a", "GET ctx:s:a"}, "ctx:s:a", "nil"},
				{"read under one of two", []string{"WATCH ctx:s:b", "WATCH ctx:s:a ctx:s:c", "GET ctx:s:a"}, "ctx:s:a", "nil"},
				{"read before it", []string{"GET ctx:s:a", "WATCH ctx:s:a"}, "ctx:s:a", "FENCED"},
				{"read of what it does not watch", []string{"WATCH ctx:s:b", "GET ctx:s:a"}, "ctx:s:a", "FENCED"},
				{"read of more than it watches", []string{"WATCH ctx:s:a", "MGET ctx:s:a ctx:s:b"}, "ctx:s:b", "FENCED"},
				{"read under one that is taken back", []string{"WATCH ctx:s:a", "GET ctx:s:a", "UNWATCH"}, "ctx:s:a", "FENCED"},
				{"read under an earlier one", []string{"WATCH ctx:s:a", "GET ctx:s:a", "UNWATCH", "WATCH ctx:s:b"}, "ctx:s:a", "FENCED"},
			} {
				t.Run(mode+", RESP"+protocol+", "+tc.name, func(t *testing.T) {
					p := newPlayers(t, harness.StartRedis(t), config+"    mode: "+mode+"\n")
					p.play("A.c1 -> HELLO " + protocol)
					for _, command := range tc.before {
						p.play("A.c1 -> " + command)
					}
					p.play("B.c1 -> SET " + tc.write + " B => OK")
					p.play("A.c1 -> MULTI | SET ctx:s:a A | EXEC => OK | QUEUED | " + tc.want)
					p.play(`
						R -> GET ctx:s:a => ` + map[bool]string{true: "B", false: "nil"}[tc.write == "ctx:s:a"] + `
						A.c1 -> WATCH ctx:s:a
						A.c1 -> GET ctx:s:a
						A.c1 -> MULTI | SET ctx:s:a again | EXEC => OK | QUEUED | [OK]
						R -> GET ctx:s:a => again
						A.c1 -> WATCH ctx:s:a
						A.c1 -> GET ctx:s:a => again
						B.c1 -> SET ctx:s:a B => OK
						A.c1 -> MULTI => OK
						A.c1 -> SET ctx:s:a A => QUEUED
						A.c1 -> EXEC => nil
						B.c1 -> SET ctx:s:a C => OK
						A.c1 -> MULTI | PING | EXEC => OK | QUEUED | [PONG]
					`)
				})
			}
		}
	}
}

func TestABoundOfAListIsNoWriteOfWhatWasRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ bound, want string }{
		{"-3 -1", "OK"},
		{"0 2", "OK"},
		{"0 -2", "FENCED"},
		{"1 -1", "FENCED"},
		{"-3 -2", "FENCED"},
		{"x -1", "FENCED"},
	} {
		t.Run(tc.bound, func(t *testing.T) {
			p := newPlayers(t, harness.StartRedis(t), guarding("mode: fence"))
			p.play(`
				A.c1 -> LRANGE ctx:s 0 -1 => []
				B.c1 -> RPUSH ctx:s 1 2 3 4 => 4
				A.c1 -> LTRIM ctx:s ` + tc.bound + ` => ` + tc.want)
		})
	}
}
