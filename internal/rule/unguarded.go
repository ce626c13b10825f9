package rule

import "time"

// Unguarded is the name under which a key that no rule guards has a session of its own. No rule can have it.
const Unguarded = "(none)"

// ForUnguarded returns the terms on which a session is held that no rule guards: the defaults, but that a hold
// may last a day, for it may be a job's.
func ForUnguarded() *Rule {
	r := Default()
	r.Name = Unguarded
	r.MaxHold = 24 * time.Hour
	r.RecordTTL = 2 * r.MaxHold
	return &r
}
