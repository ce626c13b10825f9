// Package soak keeps a proxy busy and looks at what it keeps.
//
//	make soak                  ten minutes
//	make soak DURATION=1h
//
// The load comes in spells. In a spell, guests (visit.go) come, talk to the proxy for a while, and leave,
// many of them rudely; those who stay are as fast as they can be. At the end of a spell
// everybody leaves, and the proxy is looked at:
//
//	spell: load … all leave ─▶ goroutines back to those of the idle proxy ─▶ GC, heap
//
// The proxy is a process of its own (subject.go), so that what the guests use does not count. The first spell
// warms up. Then
//
//   - after every spell the goroutines must go back to as many as there were before the
//     first guest came;
//   - the heap after garbage collection, its median over the last third of the spells, must not
//     exceed that over the first third by more than a margin of 512 KiB. Buffers and pools
//     that grow to their bound fit into that.
//
// For this to fail, something must be left behind for every guest or every session; the longer a soak is, the
// less of it. Ten minutes see some hundred thousand guests. A goroutine may go some seconds late: a
// guest's TCP reset is not always heard, and the kernel's keep-alive then finds out.
package soak
