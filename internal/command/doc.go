// Package command answers two questions about a Redis call: which command is
// it, and which of its arguments are keys.
//
// # Where the answers come from
//
// The server's own COMMAND table decides, so a command added by a newer server
// or by a module needs no change here. Since 7.0 that table carries key specs;
// for a server without them (Redis before 7.0, the embedded store) [Load] takes
// the specs from [Builtin], the table of a 7.0 server kept as facts in
// builtin.txt, and json.txt beside it.
//
//	COMMAND reply ─Parse─▶ Table ─Lookup(args)─▶ Command ─Keys(args)─▶ []Key, complete
//	                         ▲                                           │ not complete
//	builtin.txt ──Builtin────┘ (Load: where key specs are missing)       ▼
//	                                                    ServerKeys: COMMAND GETKEYSANDFLAGS
//
// # Terms
//
//   - A call is the array of arguments a client sent; args[0] is the name.
//   - A container is a command with sub-commands (CLIENT, OBJECT). Each
//     sub-command is a [Command] of its own, named "object|encoding".
//   - A key spec says where keys begin, how many there are, and what is done to
//     them. [Read] stands for the server's RO, [Write] for RW, OW and RM. A spec
//     the server marks "not_key" (shard channels) names no key and is dropped.
//   - A call is complete when the keys reported are all the keys it can touch.
//
// # What a caller may rely on
//
//   - When [Command.Keys] says complete, the server touches no other key in this
//     call; it may touch fewer, as it does when it rejects the call. Two things
//     lie outside: what a script does beyond the keys it declares, and commands
//     that name no key and touch many. Of these, FLUSHALL, FLUSHDB and SWAPDB are
//     [FlagWrite] without keys; KEYS and SCAN are [FlagReadOnly] without.
//   - Not complete means: ask the server with [ServerKeys], or refuse. The keys
//     reported still count.
//   - A [Key] is an index into args; a key given twice is reported twice. The
//     same index may appear twice, once per spec.
//   - Lookup and Keys never panic, whatever the arguments, and do not allocate
//     when dst has room.
//   - A [Table] and its commands do not change after they are built and may be
//     shared between goroutines.
//
// # Where specs are not enough
//
// Specs describe a command's usual form, and for a few commands the usual form
// is not what the server executes: "XREADGROUP COUNT 1 GROUP STREAMS c STREAMS
// k >" reads k, though its spec (and COMMAND GETKEYS) says c and STREAMS. A
// guard that believes the spec can be walked around, so the file exact.go reads
// those few as the server does, each with its reason.
//
// The server compares names and keywords as C strings: "SET\x00x" can run SET,
// and "STORE\x00" is STORE. So does this package.
package command
