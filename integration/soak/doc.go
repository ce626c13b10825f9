// Package soak keeps a proxy busy while things go wrong, and looks at what it keeps.
//
//	make soak                       an hour
//	make soak DURATION=10m SEED=7   make test has some seconds of it
//
// On a street (street.go) there are two proxies with their guests, and the Redis that they share. The subject is the one that is
// looked at; it is a process of its own, so that what the guests use does not count:
//
//	guests ──▶ subject ──▶ relay ──▶ Redis
//	guests ──▶ neighbour ──────────────▲
//
// The load comes in spells. In a spell guests (visit.go) come, talk to their proxy for a while, and leave, many of them rudely; those who
// stay are as fast as they can be. Meanwhile faults (fault.go) happen, in an order that follows from a seed: Redis is killed and frozen, its
// network is slow, silent or cut, the neighbour is killed while its clients hold and wait, the configuration changes, records
// expire under their holders. Every fourth spell, and the first, have none. At the end of a spell everybody leaves, and the subject is looked at:
//
//	spell: load, faults … all leave ─▶ records gone ─▶ levels back to those of the idle proxy ─▶ GC, memory
//
// What may be found wrong (verdict.go):
//
//   - **Levels.** After every spell goroutines, descriptors, clients, their connections to Redis, holds and waiters (by the metrics and
//     by the status page) go back to as many as there were before the first guest came, and no fence record is left at Redis. Connections that the
//     proxy keeps for itself once it has needed them are bounded.
//   - **Trends.** Heap after garbage collection, and resident memory: the median over the last third of the spells must not exceed that over the first
//     third, nor what was there before the first guest came, by more than a margin. What the proxy remembers for its status page is full before the first spell (fill.go).
//   - **Updates** (ledger.go). Each that was acknowledged is there in the end, once; each of which nobody could tell is there once or not at all.
//   - **Words.** A guest who was there during a fault may be told of it (trouble.go): its connection is lost, or FENCEDOWN, FENCEUNKNOWN, Redis's LOADING. Anybody else,
//     and those whose proxy had no fault, must be served; a reply that never comes is no fault's.
//
// go test alone plays a short form.
//
// In the end it prints how fast new guests were served again after each kind of fault, what guests were told, and what the subject has used.
//
// For a trend to show, something must be left behind for every guest or every session; the longer a soak is, the less of it. An hour
// sees some hundred thousand guests. A goroutine may go some seconds late: a guest's TCP reset is not always heard, and the
// kernel's keep-alive then finds out.
package soak
