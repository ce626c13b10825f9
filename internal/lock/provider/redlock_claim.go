package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// redlockClaim is one acquisition's lock at the nodes, under a value that no other one ever has.
type redlockClaim struct {
	l       *redlock
	key     redlockKey
	value   string // "id lease-in-ms holder"
	lease   time.Duration
	timeout time.Duration // of one node's answer
	over    atomic.Bool   // nothing but its release is asked any more
	at      []redlockSpot // by node

	answers <-chan redlockAnswer // to take, those that it has not waited for
	tally   *redlockTally        // of those that it has
}

// redlockSpot is where a claim stands with one node. Its turn is taken while something is asked there, so that a release comes
// behind what it is to undo.
type redlockSpot struct {
	turn chan struct{} // holds one while it is taken
	may  bool          // the claim may have its lock there
	late bool          // something that was asked may still be on its way there
}

func (l *redlock) claim(r *Request) *redlockClaim {
	id := l.proxy + "." + strings.ToLower(rand.Text())
	c := &redlockClaim{
		l: l, key: redlockKey{r.Session, id}, lease: r.Lease, timeout: min(l.settings.NodeTimeout, r.Lease/5),
		value: fmt.Sprintf("%s %d %s", id, r.Lease.Milliseconds(), r.Holder),
		at:    make([]redlockSpot, len(l.nodes)),
	}
	for i := range c.at {
		c.at[i].turn = make(chan struct{}, 1)
	}
	return c
}

// redlockAnswer is one node's.
type redlockAnswer struct {
	fields []string
	err    error
}

// ask asks all nodes at once. Each sends one answer. The caller has entered.
func (c *redlockClaim) ask(s *redlockScript, args ...any) <-chan redlockAnswer {
	answers := make(chan redlockAnswer, len(c.l.nodes))
	for i := range c.l.nodes {
		c.l.tasks.Go(func() {
			fields, err := c.askOne(i, s, args)
			answers <- redlockAnswer{fields, err}
		})
	}
	return answers
}

func (c *redlockClaim) askOne(i int, s *redlockScript, args []any) ([]string, error) {
	spot := &c.at[i]
	spot.turn <- struct{}{}
	defer func() { <-spot.turn }()
	switch {
	case s == redlockRelease:
		return c.releaseOne(i, args)
	case c.over.Load():
		return nil, errRedlockOver
	case s == redlockRaise && !spot.may:
		return []string{"gone"}, nil
	}
	ctx, cancel := context.WithTimeout(c.l.io, c.timeout)
	defer cancel()
	fields, err := c.l.nodes[i].ask(ctx, s, c.key, args...)
	var out *outError
	switch {
	case err == nil:
		spot.may = slices.Contains([]string{"taken", "raised", "kept", "joined"}, fields[0])
	case lostAnswer(err):
		spot.may, spot.late = true, true
	case !errors.Is(err, errNotSent) && !errors.As(err, &out): // a script that failed may have done its work
		spot.may = true
	}
	return fields, err
}

// releaseOne deletes the lock at one node. If that does not answer, it will be told again.
func (c *redlockClaim) releaseOne(i int, args []any) ([]string, error) {
	spot, late := &c.at[i], time.Duration(0)
	switch {
	case !spot.may:
		return []string{"gone", "0"}, nil
	case spot.late:
		late = max(c.lease, time.Minute)
	}
	args = []any{args[0], args[1], millis(late)}
	ctx, cancel := context.WithTimeout(c.l.io, c.timeout)
	defer cancel()
	fields, err := c.l.nodes[i].ask(ctx, redlockRelease, c.key, args...)
	if lostAnswer(err) || errors.Is(err, errNotSent) {
		c.l.nodes[i].owe(redlockDebt{c.key, args, time.Now().Add(c.lease)})
	}
	return fields, err
}

var errRedlockOver = errors.New("the acquisition is over")

// next is the next answer, or the context's error.
func next(ctx context.Context, answers <-chan redlockAnswer) (redlockAnswer, error) {
	select {
	case a := <-answers:
		return a, nil
	case <-ctx.Done():
		return redlockAnswer{}, ctx.Err()
	}
}

// redlockVotes is what the nodes know that gave their lock.
type redlockVotes struct {
	newest uint64   // the largest counter
	clocks []uint64 // in microseconds
}

// redlockRefusal says why a quorum was asked and did not give.
type redlockRefusal struct {
	free time.Duration // after which so many locks have ended that a quorum is free, 0 if that is not known
}

// take takes the lock on a quorum, or says why not.
func (c *redlockClaim) take(ctx context.Context) (*redlockVotes, *redlockRefusal, error) {
	answers := c.ask(redlockTake, c.value, millis(c.lease), millis(c.l.settings.RestartDelay))
	t, votes := c.l.tally(), &redlockVotes{}
	c.answers, c.tally = answers, t
	var left []time.Duration // of others' locks
	for t.undecided() {
		a, err := next(ctx, answers)
		if err != nil {
			return nil, nil, err
		}
		if a.err == nil && a.fields[0] == "taken" {
			a.err = votes.add(a.fields)
			t.count(true, a.err)
			continue
		}
		t.count(false, a.err)
		if a.err == nil && len(a.fields) == 3 {
			if d, err := time.ParseDuration(a.fields[2] + "ms"); err == nil {
				left = append(left, d)
			}
		}
	}
	return votes, t.refusal(left), t.down()
}

// raise stores the grant on a quorum, if the lock is still the claim's there.
func (c *redlockClaim) raise(ctx context.Context, grant uint64) (*redlockRefusal, error) {
	answers := c.ask(redlockRaise, c.value, strconv.FormatUint(grant, 10), millis(c.l.settings.CounterTTL))
	t := c.l.tally()
	for t.undecided() {
		a, err := next(ctx, answers)
		if err != nil {
			return nil, err
		}
		t.count(a.err == nil && a.fields[0] == "raised", a.err)
	}
	return t.refusal(nil), t.down()
}

// give deletes the lock wherever it may be, and waits for nobody.
func (c *redlockClaim) give() {
	c.over.Store(true)
	c.ask(redlockRelease, c.value, "")
}

func (v *redlockVotes) add(fields []string) error {
	if len(fields) != 4 {
		return fmt.Errorf("script take answers %q", fields)
	}
	counter, err1 := strconv.ParseUint(fields[1], 10, 64)
	seconds, err2 := strconv.ParseUint(fields[2], 10, 64)
	micros, err3 := strconv.ParseUint(fields[3], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("script take: %w", err)
	}
	v.newest = max(v.newest, counter)
	v.clocks = append(v.clocks, seconds*1_000_000+micros)
	return nil
}

// largestGrant is what a Lua number, and a client's, still holds exactly.
const largestGrant = 1<<53 - 1

// grant is the next one; see Redlock for why it is large enough.
func (v *redlockVotes) grant(above uint64) (uint64, error) {
	clocks := append(slices.Clone(v.clocks), uint64(time.Now().UnixMicro()))
	slices.Sort(clocks)
	grant := max(v.newest+1, above+1, clocks[len(clocks)-2])
	if grant > largestGrant {
		return 0, fmt.Errorf("grant %d is above the largest, %d", grant, uint64(largestGrant))
	}
	return grant, nil
}

// redlockTally counts the answers of one round.
type redlockTally struct {
	pending, quorum, spare int // spare nodes may fail
	yes, no                int
	errs                   []error
}

func (l *redlock) tally() *redlockTally {
	return &redlockTally{pending: len(l.nodes), quorum: l.quorum, spare: len(l.nodes) - l.quorum}
}

func (t *redlockTally) count(yes bool, err error) {
	t.pending--
	switch {
	case err != nil:
		t.errs = append(t.errs, err)
	case yes:
		t.yes++
	default:
		t.no++
	}
}

// undecided says whether an answer that is still to come can change the outcome.
func (t *redlockTally) undecided() bool {
	switch {
	case t.yes >= t.quorum || t.no > t.spare || len(t.errs) > t.spare:
		return false
	case t.yes+t.pending < t.quorum && len(t.errs)+t.pending <= t.spare:
		return false
	}
	return t.pending > 0
}

// down is the error that says that no quorum answers.
func (t *redlockTally) down() error {
	if len(t.errs) <= t.spare {
		return nil
	}
	return fmt.Errorf("no quorum of nodes takes part, %d have to: %w", t.quorum, redlockErrors(t.errs))
}

// redlockErrors are those of several nodes, on one line. They don't unwrap: a node's timeout is not the caller's.
type redlockErrors []error

func (errs redlockErrors) Error() string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// refusal is nil if a quorum said yes. left is what others' locks have left.
func (t *redlockTally) refusal(left []time.Duration) *redlockRefusal {
	if t.yes >= t.quorum || len(t.errs) > t.spare {
		return nil
	}
	slices.Sort(left)
	r := &redlockRefusal{}
	if i := len(left) - t.spare - 1; i >= 0 { // as many may stay
		r.free = left[i]
	}
	return r
}

func millis(d time.Duration) int64 { return d.Milliseconds() }
