// Package tokenstore is the fence at the store: the scripts that grant, check and settle, the
// keys they keep, and nothing else. It decides; it never waits, renews or remembers.
//
// # Terms
//
// A grant is the number a hold gets. A fencing token is (grant, seq): seq counts the writes under
// one grant. A fence record is one session's state at the store, three keys that share a hash tag:
//
//	fence-proxy:{rule:session}:t   newest grant, last token stored, provider    (watched by commits)
//	fence-proxy:{rule:session}:h   the hold: owner, grant, since, who it is      (its TTL is the lease)
//	fence-proxy:{rule:session}:q   the waiters, first come first served
//
// Only :t is watched, so renewals and arriving waiters never disturb a commit.
//
// # The rule
//
// A write is applied iff its grant is the newest one issued for the session and its token is
// greater than the last one stored; check and write are one atomic step. A grant is issued no
// later than the first read it covers.
//
// # A read and a write, as they go over the wire
//
//	begin:   EVALSHA begin | WATCH :t | GET :t | the client's read
//	verify:  GET :t | the client's read                 (the owner holds the session already)
//	commit:  MULTI | the client's command | EVALSHA settle | EXEC
//	or:      WATCH :t | EVAL check | MULTI | the client's command | EVALSHA settle | EXEC
//
// The client's command runs as itself, so its reply is Redis's own. The WATCH that was taken with
// the read is dirtied by a newer grant or the loss of the record. Where it does not stand any more,
// a check does it: one that is not good touches :t, which dirties the connection's own WATCH. EXEC
// then answers nil and nothing was applied. Each is one write to the upstream and one round trip.
//
// # Invariants
//
//  1. Grants only grow: max(last + 1, the store's clock in microseconds, one above the largest
//     grant this proxy has seen).
//  2. A missing token key refuses the write of any holder.
//  3. A hold counts only while its grant is the newest.
//  4. Every key has a TTL: :h the lease, :t and :q the rule's record TTL since their last use.
package tokenstore
