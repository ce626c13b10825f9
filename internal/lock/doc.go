// Package lock grants sessions to owners, keeps their leases and ends them. It knows what an
// owner has read and may still write; whether a write is applied is decided at the store
// (package tokenstore).
//
// # A sequence
//
// A sequence is what one owner does on one session: its guarded reads and the writes that they
// lead to. Its states:
//
//	        read: begin granted                    commit, idle, linger
//	Free ─────────────────────────▶ Held ───────────────────────────────────▶ Ended
//	 ▲  ▲                            │ max_hold, lease lost                     │
//	 │  │ reported once              ▼                                          │
//	 │  └───────────────────────── Broken                                       │
//	 └──────────────────────────────────────────────────────────────────────────┘
//	      the reads it remembers were written, refused or forgotten
//
// Held: the owner holds the session under a grant; reads only verify the grant. Ended: the hold
// was released, and what was read under its grant may still be written if nobody has been granted
// the session since; the store tells. Broken: the hold was lost in the middle; the owner's next
// guarded command, read or write, is refused once, and then the sequence is Free again.
//
// A Free sequence writes blindly: the store grants and applies in one step unless somebody holds
// the session.
//
// # Reads that were used up
//
// With writes_per_read one, a write uses up the read of its key. Of two tasks that share an owner
// and both read before either writes, the second write is refused: its read was made before the
// first write (reads.go).
//
// # Rules that change
//
// A sequence under way keeps the rule that it began with; one that holds nothing is succeeded by one under the
// rule as it is now, which knows what was read (succession.go).
//
// # Who owns what
//
// A Manager serves one proxy. An Owner belongs to a client connection, or is the proxy's own; its
// sequences' states are guarded by a mutex each, and commands on one sequence take turns (Turn,
// Leave). The keeper's timer of a sequence renews the lease at a third, and ends the hold at
// idle, linger or max_hold. Every goroutine is waited for by Manager.Close.
package lock
