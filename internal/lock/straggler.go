package lock

import (
	"time"

	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// A straggler is a task that has read before a write of another task of its owner, and whose own write is still to come. If the
// other one reads again meanwhile, nobody can tell whose the next write is: both are refused, both read again, and so on without end.
// So where several tasks are known to share an owner, a read waits until the stragglers' writes have come: those are refused for
// certain, and the next write is of one who has read since.

// patient is how long a read waits for stragglers at least, as long as that has not been in vain.
const patient = 250 * time.Millisecond

// Stragglers says how long a read of keys (as hashes) had better wait for the writes of stragglers, counted from its coming; 0: it may be
// answered. behind are the keys of the writes that have come behind it on its connection (member): these wait for it, so it does not wait for
// them. fewer is closed when there may be fewer stragglers. The caller says StragglersOver in the end.
func (s *Sequence) Stragglers(member any, keys, behind []uint64, now time.Time) (wait time.Duration, fewer <-chan struct{}) {
	o := s.owner.Load()
	if s.apart || s.Rule.Mode == rule.ModeObserve || !o.interleaves.Load() {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	span, straggling := s.span(), false
	if len(behind) > len(s.behind[member]) {
		s.stir()
	}
	if s.behind == nil {
		s.behind = map[any][]uint64{}
	}
	s.behind[member] = behind
	var settled []*keyReads // of which all writes to come that go back to what was read so far have come
	for _, key := range keys {
		k := s.reads.find(key)
		if k == nil || k.stale == 0 || now.Sub(k.old) >= span {
			continue
		}
		if s.writesOf(key) < k.fresh+k.stale {
			straggling = true
		} else {
			settled = append(settled, k)
		}
	}
	if straggling {
		if s.fewer == nil {
			s.fewer = make(chan struct{})
		}
		return o.patience(s.paceOf(), s.Rule), s.fewer
	}
	for _, k := range settled {
		k.age(0)
		o.Crowd()
		o.vain.Store(0)
	}
	return 0, nil
}

// StragglersOver notes that a connection's read waits no more; vain, that it has waited in vain.
func (s *Sequence) StragglersOver(member any, vain bool) {
	if vain {
		s.owner.Load().vain.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.behind, member)
}

// GiveUp notes that a write of keys was refused that goes back to what has become stale, whatever has been read since.
func (s *Sequence) GiveUp(keys []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if k := s.reads.find(key); k != nil && k.stale > 0 {
			k.stale--
		}
	}
	s.stir()
}

// writesOf is how many writes of a key are known to be behind reads that wait. Called with mu held.
func (s *Sequence) writesOf(key uint64) (n int) {
	for _, behind := range s.behind {
		for _, k := range behind {
			if k == key {
				n++
			}
		}
	}
	return n
}

// Straggles reports whether tasks become stragglers if somebody else turns out to have written keys (as hashes).
func (s *Sequence) Straggles(keys []uint64) bool {
	if s.apart || s.Rule.Mode == rule.ModeObserve || !s.owner.Load().interleaves.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state != Held && s.reads.fresh(keys)
}

// Crowd notes that several tasks of the sequence's owner are at work at once.
func (s *Sequence) Crowd() { s.owner.Load().Crowd() }

// Crowded reports whether that was noted.
func (s *Sequence) Crowded() bool { return s.owner.Load().Crowded() }

// Overlaps takes in that a connection (member) has sent a read command at a place in what it sends, and all up to upTo before that was answered.
// It reports whether the same command had come before it was answered the last time: that is another task's.
func (s *Sequence) Overlaps(member string, command uint64, at, upTo int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.last
	s.last = said{member, command, upTo}
	return was.member == member && was.command == command && at <= was.upTo
}

// said is a read command, and what its connection had sent before it was answered.
type said struct {
	member  string
	command uint64
	upTo    int64
}

// stir tells those who wait for stragglers that there may be fewer. Called with mu held.
func (s *Sequence) stir() {
	if s.fewer != nil {
		close(s.fewer)
		s.fewer = nil
	}
}

// patience is how long a read waits for stragglers: as long as tasks take from a read to their write, and half as long again. Each time
// that none has come, it is halved: they may have read without a write in mind.
func (o *Owner) patience(pace *Owner, r *rule.Rule) time.Duration {
	longest, _ := pace.longest(r)
	most := int64(20)
	if o.Crowded() {
		most = 4
	}
	return max(patient, longest+longest/2) >> min(o.vain.Load(), most)
}
