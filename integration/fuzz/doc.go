// Package fuzz sends random commands to one Redis straight and to another through the proxy, and
// compares every byte that comes back, and what is left in the data at the end.
//
//	COMMAND, COMMAND DOCS ─▶ Vocabulary ─▶ Script ─┬─▶ proxy ─▶ Redis ─▶ replies, data ─┐
//	                                               └─────────▶ Redis ─▶ replies, data ─┴─▶ Difference?
//
//	make fuzz COMMANDS=1000000
//	go test -tags integration -v ./integration/fuzz -commands 100000 -seed 7
//
// # Terms
//
//   - A script is what one client sends over one connection, from its HELLO to its QUIT. It begins
//     with two empty servers, and is all that a failure needs to happen again.
//   - A step is one command of a script. Its words come from the server's own table and the argument
//     specs of COMMAND DOCS, so that most calls make sense; the rest are spoilt in some way.
//   - A mode is a kind of script and what stands between it and Redis: unguarded, guarded (one rule
//     for every key), crowd (twelve clients at a time, so that the proxy shares upstream connections),
//     and listening (subscriptions, and replies turned off).
//   - A class says how a command's replies are compared: byte by byte, unless what it answers is
//     the time, chance, or the server's own (class.go).
//   - An exception is a documented refusal of the guard (exception.go). Each is counted, and one that
//     is met no more fails the test until it is deleted.
//
// # What is made harmless
//
// Two servers can only agree about what does not depend on when and where a command runs. Commands
// that would stop a server, reach out of it or cut off a connection are left out (leftout.go);
// arguments that would make a call depend on the clock, wait long or take much memory are replaced
// (tame.go). A command that leaves something random behind is followed by a DEL of its key.
//
// # When it fails
//
// The seed and the script's number are printed, and what is left of the script when everything that
// the failure does not need is taken away.
package fuzz
