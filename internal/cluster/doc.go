// Package cluster makes a Redis Cluster look like one Redis.
//
//	client's side             this package                                      nodes
//	                        ┌──────────────────────── front ───────────────────────┐
//	conn ◀── a pair of ──▶  │ router: request → slot → node ──▶ conn ─▶ conn.send  │ ──▶ node A
//	         sockets        │                  └─▶ queue ◀── reply's turn          │ ◀── node A
//	                        │ deliver: replies in the order of the requests ◀─ conn│ ◀── node B
//	                        └──────────────────────────────────────────────────────┘
//
// Cluster.Dial returns one end of a pair of sockets, a real connection for whoever reads and writes raw descriptors. At the
// other end is a front, which speaks as one Redis and has connections of its own to the nodes, made when they are first
// needed and told what the client has said of itself (session.go).
//
// # Terms
//
//   - topology: who has which slots. There is one for all fronts, found by asking nodes (find.go): at intervals, when one says
//     that a slot has moved, and when one can't be reached.
//   - router: the goroutine of a front. It reads requests, says where each goes (route.go), and sends what came together in
//     one write a node.
//   - entry: a reply that is awaited. The queue of a front has them in the order of the requests; each connection's replies are
//     in that order, too, so whoever receives delivers those whose turn it is (deliver.go).
//   - home: the primary that gets what has no keys, the same for all fronts.
//   - job: one reply made of several, of a command that is carried out at several nodes (spread.go).
//
// # What holds
//
//   - Commands on one slot take effect in the order in which they were sent. Commands on several nodes, sent without waiting for
//     the replies, take effect in any order.
//   - Nothing that a node may have carried out is sent again. When a connection breaks on which replies, or state such as a WATCH
//     or a subscription, are outstanding, the front's client is disconnected, as from a Redis that is gone.
//   - What a node has refused because of slots (MOVED, ASK, TRYAGAIN, CLUSTERDOWN), and what could not be sent, is tried again for
//     [Patience], in the order in which it was sent, and nothing new is sent meanwhile (redirect.go).
//   - A router that waits still notices that its client is gone. It never waits for the client to take replies.
//
// # Who owns what
//
// Fields of a front belong to its router, to who holds front.out (writing to the client; taken first), or to who holds front.mu.
// A connection has a goroutine that reads; all of a front's end before it does.
package cluster
