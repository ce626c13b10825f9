package tokenstore

import (
	"strconv"
	"time"

	"github.com/tidwall/redcon"
)

// Claim is what an owner brings to a session: who it is and on which terms it holds. It is
// immutable and may be shared by all sequences of one owner under one rule.
type Claim struct {
	Owner string // unique among all owners of all proxies; no line breaks
	Identity
	Lease time.Duration // the hold's time limit unless renewed
	TTL   time.Duration // how long the record outlives its last use

	info       string
	lease, ttl string
}

// NewClaim returns a claim.
func NewClaim(owner string, id Identity, lease, ttl time.Duration) *Claim {
	return &Claim{
		Owner: owner, Identity: id, Lease: lease, TTL: ttl,
		info: id.encode(), lease: millis(lease), ttl: millis(ttl),
	}
}

func millis(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// Reservation is how long a session handed to a waiter waits to be taken up before it goes to
// the next one.
const Reservation = time.Second

var reserve = millis(Reservation)

func appendUint(dst []byte, n uint64) []byte {
	var digits [20]byte
	return redcon.AppendBulk(dst, strconv.AppendUint(digits[:0], n, 10))
}
