package doctor

import (
	"context"
	"time"
)

const (
	// adrift is from where on clocks are so far apart that people notice.
	adrift = time.Second
	// leap is from where on what is granted after a failover would lie below what was granted before, if the record is lost, too.
	leap = 500 * time.Millisecond
)

// clock compares a node's clock with this machine's.
func clock(ctx context.Context, e *exam) {
	distance, err := e.distance(ctx)
	switch {
	case err != nil:
		e.unsure(err, "compare the clocks of Redis and of the proxy's machine by hand")
	case distance.Abs() > adrift:
		e.warn("have both follow one time server (NTP)", "its clock is %s %s of this machine's: what messages and logs say of times is off, though no update is lost by it", span(distance.Abs()), side(distance))
	default:
		e.ok("its clock is within %s of this machine's", span(max(distance.Abs(), time.Millisecond)))
	}
}

func side(distance time.Duration) string {
	if distance < 0 {
		return "behind"
	}
	return "ahead"
}

// distance is how far a node's clock is ahead: of three tries the one with the quickest answer.
func (e *exam) distance(ctx context.Context) (best time.Duration, err error) {
	quickest := time.Duration(-1)
	for range 3 {
		before := time.Now()
		there, err := e.Redis.Time(ctx).Result()
		took := time.Since(before)
		if err != nil {
			return 0, err
		}
		if quickest < 0 || took < quickest {
			quickest, best = took, there.Sub(before.Add(took/2))
		}
	}
	return best, nil
}

// apart compares the clocks of several nodes with each other.
func apart(ctx context.Context, p *Patient, there []bool, found *[]Finding) {
	var first, last time.Duration
	compared := 0
	for i, node := range p.Nodes {
		if !there[i] {
			continue
		}
		d, err := (&exam{Patient: p, Node: node}).distance(ctx)
		if err != nil {
			continue
		}
		if compared == 0 || d < first {
			first = d
		}
		if compared == 0 || d > last {
			last = d
		}
		compared++
	}
	e := &exam{check: "clocks", found: found}
	switch {
	case compared < 2:
	case last-first > leap:
		e.warn("have all nodes follow one time server (NTP)", "the clocks of the nodes are %s apart: after a failover that loses a record, a session is refused until the new node's clock has caught up", span(last-first))
	default:
		e.ok("the clocks of %d nodes are within %s", compared, span(max(last-first, time.Millisecond)))
	}
}
