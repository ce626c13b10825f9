// Package observe finds the updates that are being lost: it is told of every command that passes a
// proxy and of the start of its reply, keeps in memory what that says of the keys, and changes
// nothing.
//
//	proxy ──Send──▶ Conn ──turns──▶ (Redis) ──Hear──▶ Pending ─▶ key ─▶ stats ─▶ Report ─▶ Rules
//	                                                  (in Redis's order)  (by pattern)
//
// # Terms
//
//   - A version is a key's value between two changes. Each change is an update, whoever made it.
//   - A write goes on from the version that its owner has read. Its line is that version's line and
//     itself: the updates that are in the value. Blind writes and updates that the server computes
//     (RPUSH, INCR …) go on from the version they find.
//   - An update is lost when it is in the line of no later value: a write that goes on from an older
//     version, a stale one, leaves out all that came since. It may also bring back what another
//     stale write had left out. So of n updates to a key, those that are lost are n less the length
//     of the present value's line, and that is what is counted: exactly, unless the report says why not.
//   - A sequence is a read and the write that goes on from it; it overlaps with another if both had
//     the key read at once.
//
// Writes replace the value (SET, DEL …), change parts of it (HSET of some fields) or are atomic
// updates. Stale, the first leave out everything since, the second what changed the same parts, the
// third nothing.
//
// # Whose read it was
//
// A write goes on from the freshest unwritten read of its own connection whose reply had passed before
// the write came. A connection that has none takes one of another connection of the same client (same
// address, user, library and name), which is then known to pool. Without any, a write soon after one
// of the same sequence goes on from that; else it is blind. Where tasks share connections, whose
// read it was can't be known, only guessed: such losses are counted apart.
//
// # In Redis's order
//
// The proxy has a connection to Redis for each client, so it does not see in which order Redis carries
// out commands of two clients that are under way at once. So these take turns, as far as they
// touch one key and one of them writes: the later one is sent when the earlier one is answered. Commands of one client
// never wait for each other, reads not for reads, and no command longer than a tenth of a second (DefaultTurn): then the
// order is taken as it seems, and counted as unsure.
//
// # Memory
//
// It is bounded, whatever passes: by the limits of keys, patterns, clients and so on in limits.go. What is left
// out is counted. Keys are kept as hashes; their text only in patterns, and values never.
package observe
