package cluster

// kind is what becomes of a reply.
type kind uint8

const (
	passed   kind = iota // it goes to the client
	dropped              // nobody wants it
	local                // there is none to wait for: text goes to the client
	part                 // it is a part of a job
	queued               // of a command in a transaction: QUEUED, whatever it says of slots
	executed             // of EXEC
	confirms             // a confirmation of a subscription, or several
	told                 // it says which connection this is
)

// entry is one reply that the client, or the front, waits for. A command in several places has as many, one behind the other.
type entry struct {
	kind     kind
	closes   bool      // the connection ends behind it
	blocks   bool      // it may take its time
	scripted bool      // it names a script by its digest
	watches  bool      // it is WATCH, or subscribes to a shard: its state stays where it was carried out
	quiet    bool      // of confirms: they are not for the client
	repeats  bool      // it may be carried out twice, since it changes nothing
	overtook bool      // it was carried out before what came before it: its reply is not its own
	slot     int32     // -1: it has no keys
	under    *watching // which an EXEC to come may rely on

	c    *conn // where it was sent; nil: nowhere yet
	raw  []byte
	in   *chunk // where raw is, nil if it is kept by other means
	text []byte // of a local one
	job  *job
	at   int // which part of the job
	tx   *transaction
	left int    // of confirms: how many are to come; 0: as many as there are subscriptions
	word string // of confirms

	skip   int // replies that come before its own and are nobody's: of a transaction that is sent again
	again  redirect
	trials trials
}

// queue are the replies to come, in the order in which the client gets them.
type queue struct {
	ring []entry // its length is a power of two
	head int
	len  int
}

func (q *queue) first() *entry { return &q.ring[q.head] }

func (q *queue) push(e *entry) {
	if q.len == len(q.ring) {
		ring := make([]entry, max(16, 2*len(q.ring)))
		n := copy(ring, q.ring[q.head:])
		copy(ring[n:], q.ring[:q.head])
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.len)&(len(q.ring)-1)] = *e
	q.len++
}

func (q *queue) pop() {
	q.ring[q.head] = entry{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	if q.len--; q.len == 0 && len(q.ring) > 1024 {
		q.ring, q.head = nil, 0 // a burst has passed
	}
}

// each calls a function with all entries and their places, from the first on, whose place is 0.
func (q *queue) each(do func(at int, e *entry)) {
	for i := range q.len {
		do(i, &q.ring[(q.head+i)&(len(q.ring)-1)])
	}
}
