package upstream

const (
	// copyMost is up to which length a call's requests are copied to be sent with others, in bytes.
	copyMost = 4 << 10
	// outMost bounds the memory that is kept for copies, in bytes.
	outMost = 16 << 20
)

// outbox is what is sent for a batch. It belongs to the leader.
type outbox struct {
	pieces [][]byte
	copies []byte // of short requests
}

// gather returns the requests of calls. They are valid as long as the calls' are, until empty.
func (o *outbox) gather(calls []*Call) [][]byte {
	from := 0
	for _, c := range calls {
		if len(c.Requests) <= copyMost {
			o.copies = append(o.copies, c.Requests...)
			continue
		}
		if from < len(o.copies) {
			o.pieces = append(o.pieces, o.copies[from:])
			from = len(o.copies)
		}
		o.pieces = append(o.pieces, c.Requests)
	}
	if from < len(o.copies) {
		o.pieces = append(o.pieces, o.copies[from:])
	}
	return o.pieces
}

// empty makes the outbox ready for the next batch.
func (o *outbox) empty() {
	clear(o.pieces)
	o.pieces = o.pieces[:0]
	if n := cap(o.copies); n > outMost || n > 256<<10 && len(o.copies) < n/32 {
		o.copies = nil // a burst has passed
	}
	o.copies = o.copies[:0]
}
