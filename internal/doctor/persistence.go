package doctor

import "context"

// persistence looks at what a restart of the node means.
func persistence(ctx context.Context, e *exam) {
	aof, err := e.info(ctx, "aof_enabled")
	if err != nil {
		e.unsure(err, "ask CONFIG GET appendonly and CONFIG GET save, or your provider")
		return
	}
	for _, last := range []struct{ field, what string }{{"aof_last_write_status", "the append-only file"}, {"rdb_last_bgsave_status", "a snapshot"}} {
		if status, _ := e.info(ctx, last.field); status == "err" {
			e.fail("make room on its disk, and see its log", "the last write of %s failed: Redis may refuse all writes (MISCONF)", last.what)
		}
	}
	if aof == "1" {
		switch sync, err := e.setting(ctx, "appendfsync"); {
		case err != nil:
			e.ok("append-only file; could not ask how often it is synced: %s", reason(err))
		case sync == "no":
			e.warn("set appendfsync everysec", "append-only file, synced when the system likes: a crash of the machine loses what it had not")
		default:
			e.ok("append-only file, appendfsync %s", sync)
		}
		return
	}
	save, err := e.setting(ctx, "save")
	switch {
	case err != nil:
		e.unsure(err, "no append-only file is written (INFO persistence); ask your provider for snapshots")
	case save == "":
		e.warn("set appendonly yes if what agents keep must outlive a restart", "nothing is written to disk: a restart empties it. Sequences that are open then are refused (FENCED), and go on from nothing")
	default:
		e.warn("set appendonly yes to lose a second at most", "snapshots only (save %s): a crash takes data and records back to the last one. What was acknowledged since is gone; who wrote it is refused", save)
	}
}
