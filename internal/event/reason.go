package event

// First words of what is refused.
const (
	Fenced  = "FENCED"
	Locked  = "LOCKED"
	Down    = "FENCEDOWN"
	Unknown = "FENCEUNKNOWN"
	Denied  = "FENCEDENIED"
)

// Reasons of a Grant and of a Commit.
const (
	RecordLost = "record_lost" // the record was gone though a hold depended on it
	Unguarded  = "unguarded"   // the write was not checked: the lock provider could not be asked
)

// FencedReasons are the reasons of a Refuse with FENCED, of a WouldRefuse, and of those of them that end holds, of a Break.
func FencedReasons() []string {
	return []string{
		"superseded", "missing", "changed", "held", "stored", "max_hold", "used_up", "unsure", "unnamed", "unheard", "upstream", "revised", "lost",
		"unfit", "not_newest",
	}
}

// BreakReasons are those of a Break.
func BreakReasons() []string {
	return []string{"superseded", "missing", "max_hold", "upstream", "revised", "lost", "unfit", "not_newest", "stored"}
}

// Reasons of a Refuse with LOCKED, and of a Quit.
const (
	Timeout   = "timeout"   // wait was over
	Held      = "held"      // somebody holds it, and the rule has nobody wait
	Full      = "full"      // too many wait already
	Deadlock  = "deadlock"  // the holder waited for a session of the same owner
	Overtaken = "overtaken" // a write came behind it on its connection
	Gone      = "gone"      // its client has left, or was sent away
	Unasked   = "down"      // the lock provider or the store could not be asked
	Other     = "other"
)

// LockedReasons are the reasons of a Refuse with LOCKED.
func LockedReasons() []string { return []string{Timeout, Held, Full, Deadlock, Overtaken} }

// QuitReasons are the reasons of a Quit.
func QuitReasons() []string { return []string{Timeout, Deadlock, Overtaken, Gone, Unasked, Other} }

// Reasons of a Release.
const (
	Committed = "commit"    // a write has ended the sequence
	Lingered  = "linger"    // it was kept after a write, in case of another
	Idled     = "idle"      // no command came any more
	Unwritten = "unwritten" // in mode auto: the read was for reading alone
	Closed    = "closed"    // its connection was closed
	Released  = "released"  // FENCE.RELEASE
	InVain    = "vain"      // the command that took it was refused or failed
	Yielded   = "yielded"   // somebody waited for it in a circle, or it stood in the way of its own client
	Stale     = "stale"     // what was read before it
)

// ReleaseReasons are those of a Release.
func ReleaseReasons() []string {
	return []string{Committed, Lingered, Idled, Unwritten, Closed, Released, InVain, Yielded, Stale, Other}
}
