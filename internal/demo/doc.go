// Package demo shows what fence-proxy is for, on a Redis of its own or on one that it is given:
// it has agents race for one session, first straight at Redis, then each through a proxy, and
// counts what became of their updates.
//
//	straight at Redis            through fence-proxy
//
//	agent-1 ─┐                   agent-1 ── proxy-1 ─┐
//	agent-2 ─┼── Redis           agent-2 ── proxy-2 ─┼── Redis
//	agent-3 ─┘                   agent-3 ── proxy-3 ─┘
//
// # An update
//
// The session's value is a list of entries, as JSON. An agent reads it, thinks, and writes it back
// with an entry of its own at the end. The update is acknowledged when the write is answered with
// OK, and lost if it was acknowledged and its entry is not in the value when all agents are done.
// Refused with FENCED or LOCKED, the agent starts the update again with the read. Nothing else is
// tried again: any other error ends the demo.
//
// # The pause
//
// Halfway, the last agent is paused after its read, as if its process were frozen: for longer than
// the rule's max_hold, at which its proxy stops renewing and gives the session up, and until
// another agent has made an update from start to end. Then it goes on as if nothing had happened
// and writes what it has. So that there always is such an update, the others begin their last one
// only once the pause has begun (pause.go). Nothing else is staged: the agents share no clock, and
// both races go the same way.
//
// Hence at least one update is lost straight at Redis: of the stale write and the update that
// overtook it, each was made without the other, and a value has only one line of ancestors.
//
// # What it leaves behind
//
// It writes to keys under a random prefix, "demo:…:", and deletes them in the end, interrupted or
// not; should it be killed they expire. The fence records of its session expire within seconds.
package demo
