package status

import (
	"slices"
	"time"
)

// list is one of a session's lists of turns, each in the order in which they came to it.
type list int

const (
	noList    list = iota
	openList       // waits, or holds
	pastList       // has written, or gave up
	looseList      // may yet be refused: it was broken, or has read and not written
	lists
)

// most is how many ended turns of one session are kept.
var most = [lists]int{pastList: 8, looseList: 16}

// against is how many turns a story has beside the refused one.
const against = 8

// session is what is known of one session: it is there as long as a turn of it is.
type session struct {
	id     uint64
	name   Name
	newest uint64 // grant that was heard of
	turns  [lists][]*turn
}

// holder is the open turn with the newest grant, nil if none holds.
func (s *session) holder() *turn {
	var newest *turn
	for _, t := range s.turns[openList] {
		if t.holds() && (newest == nil || t.grant > newest.grant) {
			newest = t
		}
	}
	return newest
}

// granted returns the open turn that has a grant, nil if there is none.
func (s *session) granted(grant uint64) *turn {
	if s == nil {
		return nil
	}
	for _, t := range s.turns[openList] {
		if t.grant == grant {
			return t
		}
	}
	return nil
}

// waiting is how many stand in line, and since when the first of them.
func (s *session) waiting() (n int, since time.Time) {
	for _, t := range s.turns[openList] {
		if t.waits() {
			if n++; since.IsZero() || t.asked.Before(since) {
				since = t.asked
			}
		}
	}
	return n, since
}

func (s *session) empty() bool {
	return len(s.turns[openList])+len(s.turns[pastList])+len(s.turns[looseList]) == 0
}

// superseded reports whether somebody was granted the session after the turn.
func (s *session) superseded(t *turn) bool { return t.grant > 0 && t.grant < s.newest }

// recent is how far back a story goes where the refused turn does not say.
const recent = time.Minute

// against returns copies of the turns that stood against one that is refused, or of those lately if it is nil: oldest first.
func (s *session) against(own *turn, now time.Time) []turn {
	since := now.Add(-recent)
	if own != nil {
		since = own.begin()
	}
	var found []turn
	for _, turns := range s.turns {
		for _, t := range turns {
			if t != own && (t.granted.After(since) || t.wrote.After(since) || t.holds()) {
				found = append(found, *t)
			}
		}
	}
	slices.SortFunc(found, func(a, b turn) int { return a.begin().Compare(b.begin()) })
	found = slices.Clone(found[max(len(found)-against, 0):]) // a story lasts, and found may have room for many
	for i := range found {
		found[i].session = nil
	}
	return found
}

func without(turns []*turn, t *turn) []*turn {
	if i := slices.Index(turns, t); i >= 0 {
		return slices.Delete(turns, i, i+1)
	}
	return turns
}
