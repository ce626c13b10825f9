// Package sentinel finds the primary that Sentinels watch over, and follows it. A [Dialer] makes all of a proxy's
// connections to the upstream, and knows which of them are open:
//
//	Sentinels ── +promoted-slave, +switch-master, and asked now and then ──▶ look ──▶ candidate
//	candidate ── does ROLE say master? ──▶ primary: Dial connects there, connections elsewhere are closed
//	primary ──── ROLE, each second and after a -READONLY ──▶ says replica: its connections are closed
//
// What closes is told from a Redis that has closed it by nobody: clients whose connection has no state go on over a
// new one, the others are closed, and what was under way is lost, never sent again.
//
// Sentinels can be wrong for a moment: one that was cut off names a primary that the others have replaced. So all of
// them are asked, the one with the newest configuration (epoch) counts, and ROLE has to agree. None that answers
// changes nothing: the last known primary serves as long as it says that it is one.
package sentinel
