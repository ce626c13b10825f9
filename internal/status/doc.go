// Package status keeps, in memory, what the guard has told of lately: for the status page, fence-proxy top, and
// whoever else asks the admin server.
//
//	event.Event ─▶ Collector ─▶ shard (by session) ─▶ turns: open ones, and the last that have ended
//	                                              ├─▶ hot: the sessions that are waited for most
//	                                              ├─▶ accumulators ─▶ series: the last hour, in intervals of 10 s
//	                                              └─▶ refusals: the last ones, each with its story
//
// # Terms
//
// A turn is one sequence's time on one session: it asks, waits, is granted, reads, writes, and ends. A turn is open
// as long as it waits or holds. A story is a refused turn with those that stood against it.
//
// # On the guard's path
//
// [Collector.Event] is called there. It takes the lock of one of 64 shards, for as long as it takes to note a few
// numbers; nobody holds that lock for longer, since whoever reads copies one shard after the other. No channel can
// fill up, so no event is lost, and nothing runs in the background.
//
// # Bounds
//
// 20,480 open turns and 16,384 that have ended, 384 stories, 2,048 hot sessions, 360 intervals; names are clipped. What
// is beyond that is counted but not listed. That is 40 MB at the very most, and some kilobytes where little happens.
package status
