// Package proxy is the bytes and the guard: it stands between a client and Redis, passes on what
// no rule guards, and sends what a rule guards with its fence.
//
// # One command's way
//
//	                                                 ┌▶ share ────────────▶ upstream.Shared ─▶ Redis
//	socket ─▶ input ─▶ client.next ─▶ client.handle ─┼▶ pass ─────────────▶ upstream.Conn ─▶ Redis
//	                   (framed)       (plan: which    ├▶ read:  begin | cmd ─────┤
//	                                   sessions?)     ├▶ write: check | cmd | settle
//	                                                  └▶ refuse ─▶ an error line
//	socket ◀─ downstream ◀──────────────────────────────── upstream.Conn.Serve ◀── replies
//
// client.go is the way from the socket to what is done; plan.go decides what a command is, pass.go sends what no rule
// guards, transaction.go keeps what is in MULTI, read.go and write.go say what a
// guarded one costs, park.go how a client waits. errors.go is the only place where a Go error
// becomes a RESP error line.
//
// # Goroutines
//
// A client has one, run, which reads its commands, sends them up, and on a shared connection takes
// the replies back; with an upstream connection of its own (link.go), serve takes those. While
// a command of the client waits, another watches the socket, so that a client that leaves is
// noticed. A client's state belongs to run alone.
package proxy
