package lock

import (
	"sync"
	"time"
)

// In mode auto a read takes the session where reads of its kind have been followed by a write, and else takes
// no hold. A kind is a rule, a command and an owner, whose reads are few at first, so that what its client's
// other owners do counts as well. Whatever is learnt, the store checks each write: a wrong guess costs
// a wait or a refusal, never an update.

const (
	// lockFrom and lockUntil are the shares of reads that are followed by a write from which on reads of the kind
	// lock, and below which they do so no more.
	lockFrom, lockUntil = 0.2, 0.1
	// memory is the number of reads after which one counts for a third of what it did. It is short: a hold in vain keeps
	// others waiting.
	memory = 8
	// borrowed is the number of an owner's own reads that what is known of its client counts for.
	borrowed = 4
	// patienceFirst is how long a write may be in coming as long as none has come yet; patienceLeast
	// is the least that is learnt.
	patienceFirst, patienceLeast = 10 * time.Second, time.Second

	maxKinds  = 1024  // of clients, per proxy
	maxOwn    = 64    // of one owner
	maxTrials = 16384 // reads of which it is not known yet whether a write follows
	maxTried  = 8     // of one sequence
)

// kind is what is known of one kind of reads.
type kind struct {
	of     *kind // the client's, for an owner's; nil for a client's
	share  float64
	trials float64 // what share was learnt from, at most memory
	delay  float64 // from a read to its write in seconds, and how much it varies
	varies float64
	locks  bool
	used   time.Time
}

// kindKey names a client's kind.
type kindKey struct{ rule, command, client string }

// ownKey names an owner's.
type ownKey struct{ rule, command string }

// trial is a read that a write may follow.
type trial struct {
	kind    *kind
	command uint64
	at      time.Time
	over    bool
}

// learner is one proxy's.
type learner struct {
	mu     sync.Mutex
	kinds  map[kindKey]*kind
	trials []*trial // by age; those before first are over
	first  int
	reads  map[string]*Decisions // by rule
}

// Decisions counts what was decided for reads under one rule in mode auto.
type Decisions struct{ Locked, Looked uint64 }

// Learnt is what is known of one kind of reads of all owners of a client.
type Learnt struct {
	Rule, Command, Client string
	Share                 float64       // of the reads that a write of the same owner has followed
	Reads                 int           // that it was learnt from, at most 8
	Delay                 time.Duration // from the read to the write, on average; 0: no write has followed
	Locks                 bool          // whether a read of an owner that nothing else is known of would lock
}

// own returns an owner's kind.
func (l *learner) own(o *Owner, rule, command string, now time.Time) *kind {
	key := ownKey{rule, command}
	k := o.kinds[key]
	if k == nil {
		if o.kinds == nil || len(o.kinds) >= maxOwn {
			o.kinds = map[ownKey]*kind{}
		}
		k = &kind{of: l.client(kindKey{rule, command, o.client}, now)}
		o.kinds[key] = k
	}
	return k
}

func (l *learner) client(key kindKey, now time.Time) *kind {
	k := l.kinds[key]
	if k == nil {
		if len(l.kinds) >= maxKinds {
			l.forget()
		}
		k = &kind{}
		if l.kinds == nil {
			l.kinds = map[kindKey]*kind{}
		}
		l.kinds[key] = k
	}
	k.used = now
	return k
}

// forget makes room for a client's kind: the one used least lately goes.
func (l *learner) forget() {
	var oldest kindKey
	var at time.Time
	for key, k := range l.kinds {
		if at.IsZero() || k.used.Before(at) {
			oldest, at = key, k.used
		}
	}
	delete(l.kinds, oldest)
}

// expected is the share of the kind's reads that a write will follow.
func (k *kind) expected() float64 {
	if k.of == nil {
		return k.share
	}
	return (k.share*k.trials + k.of.share*borrowed) / (k.trials + borrowed)
}

func (k *kind) decide() bool {
	p := k.expected()
	k.locks = p >= lockFrom || k.locks && p >= lockUntil
	return k.locks
}

// patience is how long a write may be in coming.
func (k *kind) patience() time.Duration {
	if k.of != nil && k.delay == 0 {
		k = k.of
	}
	if k.delay == 0 {
		return patienceFirst
	}
	return max(time.Duration(4*(k.delay+k.varies)*float64(time.Second)), patienceLeast)
}

// learn takes in whether a write has followed a read, and how long after.
func (k *kind) learn(followed bool, after time.Duration) {
	for ; k != nil; k = k.of {
		k.trials = min(k.trials+1, memory)
		hit := 0.0
		if followed {
			hit = 1
		}
		k.share += (hit - k.share) / k.trials
		if !followed {
			continue
		}
		seconds := max(after.Seconds(), 1e-6)
		if k.delay == 0 {
			k.delay, k.varies = seconds, seconds/2
			continue
		}
		off := seconds - k.delay
		k.delay += off / 8
		k.varies += (max(off, -off) - k.varies) / 4
	}
}

// locks decides for a read, and says how long its hold may wait for a write.
func (l *learner) locks(o *Owner, rule, command string, now time.Time) (k *kind, locks bool, patience time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	k = l.own(o, rule, command, now)
	locks, patience = k.decide(), k.patience()
	return k, locks, patience
}

// decided counts a decision.
func (l *learner) decided(rule string, locks bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.reads[rule]
	if d == nil {
		if l.reads == nil {
			l.reads = map[string]*Decisions{}
		}
		d = &Decisions{}
		l.reads[rule] = d
	}
	if locks {
		d.Locked++
	} else {
		d.Looked++
	}
}

// try begins a trial.
func (l *learner) try(k *kind, command uint64, now time.Time) *trial {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.trials)-l.first >= maxTrials {
		l.end(l.trials[l.first], false, now)
		l.first++
	}
	t := &trial{kind: k, command: command, at: now}
	l.trials = append(l.trials, t)
	return t
}

// ended ends a trial, and reports whether reads of its kind lock now.
func (l *learner) ended(t *trial, followed bool, now time.Time) (locks bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(t, followed, now)
	return t.kind.decide()
}

// end ends a trial; a write that comes after it was given up counts all the same.
func (l *learner) end(t *trial, followed bool, now time.Time) {
	if !t.over || followed {
		t.kind.learn(followed, now.Sub(t.at))
	}
	t.over = true
}

// expire gives up the trials that nothing has followed for too long, as far as they are the oldest.
func (l *learner) expire(now time.Time) {
	for l.first < len(l.trials) {
		t := l.trials[l.first]
		if !t.over && now.Sub(t.at) < t.kind.patience() {
			break
		}
		l.end(t, false, now)
		l.trials[l.first] = nil
		l.first++
	}
	if l.first > len(l.trials)/2 {
		n := copy(l.trials, l.trials[l.first:])
		clear(l.trials[n:])
		l.trials, l.first = l.trials[:n], 0
	}
}

// Learnt returns what is known of the reads under rules in mode auto.
func (m *Manager) Learnt() []Learnt {
	l := &m.learner
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Learnt, 0, len(l.kinds))
	for key, k := range l.kinds {
		all = append(all, Learnt{
			Rule: key.rule, Command: key.command, Client: key.client, Share: k.share, Reads: int(k.trials),
			Delay: time.Duration(k.delay * float64(time.Second)), Locks: k.share >= lockFrom,
		})
	}
	return all
}

// Decisions returns how many reads locked and how many did not, by rule in mode auto.
func (m *Manager) Decisions() map[string]Decisions {
	l := &m.learner
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[string]Decisions, len(l.reads))
	for rule, d := range l.reads {
		all[rule] = *d
	}
	return all
}
