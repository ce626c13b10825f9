package cluster

import "github.com/fence-proxy/fence-proxy/internal/command"

// overtaken has the reads that were sent behind the first entry carried out behind it, where that was not carried out when they
// were: a client, and the fence first of all, relies on it that a read is not older than what was said before it. Not
// those that a write comes behind: it may be carried out already, can't be undone, and must not be read ahead of its time.
// The caller holds mu.
func (f *front) overtaken(first *entry) {
	write := 0 // its place in the queue
	f.queue.each(func(at int, e *entry) {
		if e.slot == first.slot && !e.repeats && !e.watches && (e.kind == passed || e.kind == part || e.kind == executed) {
			write = at
		}
	})
	f.queue.each(func(at int, e *entry) {
		if at > write && e.repeats && e.c != nil && e.again.what == none && (e.slot == first.slot || e.slot == elsewhere) {
			e.overtook = true
		}
	})
}

// repeats reports whether a command may be carried out twice, since it changes nothing.
func repeats(cmd *command.Command, args [][]byte) bool {
	switch cmd.Name {
	case "time", "ping", "echo":
		return true
	case "getex":
		return len(args) == 2
	case "sort", "georadius", "georadiusbymember":
		return !hasWord(args, "STORE") && !hasWord(args, "STOREDIST")
	}
	return cmd.Is(command.FlagReadOnly)
}
