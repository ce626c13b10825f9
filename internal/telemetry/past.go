package telemetry

// over is what is remembered of a sequence that is over.
type over struct {
	identity
	grant   uint64
	sampled bool
}

// past are the sequences that were over last.
type past struct {
	byID map[uint64]over
	ring []uint64 // their ids, the oldest one at next
	next int
}

func newPast() past { return past{byID: make(map[uint64]over)} }

func (p *past) find(id uint64) (over, bool) {
	o, ok := p.byID[id]
	return o, ok
}

// add remembers a sequence, and may forget the oldest.
func (p *past) add(id uint64, o over) {
	if _, known := p.byID[id]; known {
		p.byID[id] = o
		return
	}
	if len(p.ring) < maxOver {
		p.ring = append(p.ring, id)
	} else {
		delete(p.byID, p.ring[p.next])
		p.ring[p.next] = id
		p.next = (p.next + 1) % maxOver
	}
	p.byID[id] = o
}

// settle notes whether the span of a sequence is sent at all.
func (p *past) settle(id uint64, sampled bool) {
	if o, ok := p.byID[id]; ok {
		o.sampled = sampled
		p.byID[id] = o
	}
}
