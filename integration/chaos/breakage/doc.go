// Package breakage takes the promises of the fence away, one at a time, to show that the chaos harness would notice. The proxy's
// sources know nothing of it: it says what to write in the place of which text, and a proxy that can be broken is built from what
// comes out, by go build's overlay and the tag breakable. Its --break names the promise.
//
//	All       (planted.go)  what is taken away, and how
//	Overlay   (overlay.go)  the sources in which it can be
//	Is, Lua   (broken.go)   what those ask: they are there with the tag alone
package breakage
