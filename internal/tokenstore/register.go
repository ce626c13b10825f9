package tokenstore

import (
	"context"
	"strconv"

	"github.com/tidwall/redcon"
)

// Own is the lock provider that is the store itself. Any other one grants elsewhere, and its grants are registered
// here before the first read that they cover: from then on they are grants like any other. No script makes one then, so a
// write that holds nothing has to be granted first.
const Own = "redis"

// LargestGrant is the largest grant that can be registered: Lua's numbers have no more digits. A base, which is about
// the clock in microseconds, may come on top.
const LargestGrant = 1<<53 - 1<<51

// AppendRegister appends the registration of a grant that was given elsewhere, in AppendBegin's place: it answers with one
// reply, for ParseBegin.
func (s *Store) AppendRegister(dst []byte, r *Record, c *Claim, grant uint64, expected Basis) []byte {
	dst = redcon.AppendArray(dst, 3+3+7)
	dst = append(dst, s.of(r).register.evalsha...)
	dst = append(dst, r.keys...)
	dst = redcon.AppendBulkString(dst, c.Owner)
	dst = redcon.AppendBulkString(dst, c.info)
	dst = redcon.AppendBulkString(dst, c.lease)
	dst = redcon.AppendBulkString(dst, c.ttl)
	dst = redcon.AppendBulkString(dst, s.of(r).provider)
	dst = appendUint(dst, grant)
	return redcon.AppendBulkString(dst, expected.encode())
}

// Register is AppendRegister over the proxy's own connection.
func (s *Store) Register(ctx context.Context, r *Record, c *Claim, grant uint64, expected Basis) (Begin, error) {
	part, err := s.run(ctx, &s.of(r).register, r, c.Owner, c.info, c.lease, c.ttl, s.of(r).provider, grant, expected.encode())
	if err != nil {
		return Begin{}, err
	}
	return s.parseBegin(part)
}

// parseBehind reads the answer to the registration of a grant that is not newer than the record's.
func parseBehind(part []string) (Begin, bool) {
	newest, err1 := strconv.ParseUint(part[1], 10, 64)
	base, err2 := strconv.ParseUint(part[2], 10, 64)
	b := Begin{Behind: true, Newest: newest}
	if newest > base {
		b.Above = newest - base
	}
	return b, err1 == nil && err2 == nil
}
