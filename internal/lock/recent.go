package lock

import (
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/event"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// recent remembers to whom this proxy's sessions were granted last, so that a refusal can say who came in between though he
// has left again and the store does not know him any more.
type recent struct {
	mu sync.Mutex
	by map[recordKey]*[2]event.Party // the last two, newest first
}

// maxRecent bounds the sessions of which that is remembered. Of more, any one is forgotten.
const maxRecent = 4096

// note remembers that the sequence was granted its session, by itself or with a write.
func (r *recent) note(s *Sequence, grant uint64, at time.Time) {
	if grant == 0 {
		return
	}
	key := recordKeyOf(s.Record)
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.by[key]
	switch {
	case last == nil:
		if r.by == nil {
			r.by = map[recordKey]*[2]event.Party{}
		}
		for other := range r.by {
			if len(r.by) < maxRecent {
				break
			}
			delete(r.by, other)
		}
		last = new([2]event.Party)
		r.by[key] = last
	case grant <= last[0].Grant:
		return
	case s.Claim.Owner != last[0].Owner:
		last[1] = last[0]
	}
	last[0] = PartyOf(tokenstore.Holder{Identity: s.Claim.Identity, Owner: s.Claim.Owner, Grant: grant, Since: at})
}

// other returns who else than an owner was granted a session last, after its own grant if that is not the newest.
func (r *recent) other(key recordKey, owner string, grant, newest uint64) (event.Party, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.by[key]
	if last == nil {
		return event.Party{}, false
	}
	for _, p := range last {
		if p.Grant > 0 && p.Owner != owner && (newest == 0 || p.Grant > grant && p.Grant <= newest) {
			return p, true
		}
	}
	return event.Party{}, false
}

// Against returns who stands against an owner whose grant is not the newest, as far as is known: who holds the session now,
// or whom this proxy remembers; else what the newest grant itself says, which is the time at which it was made if
// the store has made it.
func (m *Manager) Against(r *tokenstore.Record, owner string, grant, newest uint64, now tokenstore.Holder) event.Party {
	if m.sink == nil || now.Held() {
		return PartyOf(now)
	}
	if p, ok := m.recent.other(recordKeyOf(r), owner, grant, newest); ok {
		return p
	}
	p := event.Party{Grant: newest}
	if newest > 0 && m.elsewhere(r) == nil {
		p.Since = time.UnixMicro(int64(newest))
	}
	return p
}
