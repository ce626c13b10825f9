package tokenstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A grant may be acquired by itself, without a command that it covers. It belongs to no connection: whoever
// presents it acts under it, from any proxy, so that it can be handed on. At the store it is a grant like any
// other; that the hold's owner has a name under ApartPrefix says that the grant alone is asked for.

// ApartPrefix begins the names of the owners of such holds.
const ApartPrefix = "grant:"

// RenewGrant extends the hold of a grant by the claim's lease from now, and takes it up again if its lease has
// ended and nobody came. ErrLost: the grant is not the newest any more, or an owner's; holder is then as in Renew.
func (s *Store) RenewGrant(ctx context.Context, r *Record, c *Claim, grant uint64) (holder Holder, err error) {
	part, err := s.run(ctx, &s.of(r).renewGrant, r, c.Owner, c.info, c.lease, c.ttl, grant, s.of(r).provider)
	switch {
	case err != nil:
		return Holder{}, err
	case part[0] == "lost":
		return lostTo(part), ErrLost
	}
	return Holder{}, nil
}

// ReleaseGrant ends the hold of a grant, uses the grant up and hands the session on. It returns whose hold it was, and
// reports false if the grant has no hold any more, or is an owner's.
func (s *Store) ReleaseGrant(ctx context.Context, r *Record, c *Claim, grant uint64) (Holder, bool, error) {
	return s.endHold(ctx, r, c, strconv.FormatUint(grant, 10))
}

// Break ends whatever hold there is, uses its grant up and hands the session on. It returns who held, and whether
// anybody did.
func (s *Store) Break(ctx context.Context, r *Record, c *Claim) (Holder, bool, error) {
	return s.endHold(ctx, r, c, "")
}

func (s *Store) endHold(ctx context.Context, r *Record, c *Claim, grant string) (Holder, bool, error) {
	part, err := s.run(ctx, &s.of(r).endHold, r, c.ttl, s.floor.Load(), s.of(r).provider, reserve, grant)
	if err != nil {
		return Holder{}, false, err
	}
	if len(part) != 2 {
		return Holder{}, false, fmt.Errorf("the release script answered %q", part)
	}
	return parseHolder(part[1]), part[0] == "1", nil
}

// Hold is a session that is held.
type Hold struct {
	Area
	Rule, Session string
	Holder        Holder
	LeaseLeft     time.Duration
}

// Inspection is what a record says.
type Inspection struct {
	Token     Token
	Holder    Holder // if anybody holds
	LeaseLeft time.Duration
	Waiting   int        // how many stand in line
	First     []Identity // the first of them
}

// Inspect reads a record and the first waiters of its line.
func (s *Store) Inspect(ctx context.Context, r *Record, first int) (Inspection, error) {
	var token, hold *redis.StringCmd
	var left *redis.DurationCmd
	var waiting *redis.IntCmd
	var line *redis.StringSliceCmd
	_, err := s.Client(r.DB).TxPipelined(ctx, func(p redis.Pipeliner) error {
		token, hold, left = p.Get(ctx, r.token), p.Get(ctx, r.hold), p.PTTL(ctx, r.hold)
		waiting, line = p.ZCard(ctx, r.queue), p.ZRange(ctx, r.queue, 0, int64(first)-1)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return Inspection{}, err
	}
	i := Inspection{Token: parseToken(token.Val()), Holder: parseHolder(hold.Val()), Waiting: int(waiting.Val())}
	if i.Holder.Grant != i.Token.Grant {
		i.Holder = Holder{}
	} else {
		i.LeaseLeft = max(left.Val(), 0)
	}
	for _, entry := range line.Val() {
		if part := strings.SplitN(entry, "\n", 5); len(part) == 5 {
			i.First = append(i.First, Identity{Proxy: part[2], Client: part[3], Name: part[4]})
		}
	}
	return i, nil
}

// page is how many keys are looked at together in search of holds.
const page = 1000

// Holds looks through a database for the sessions that are held, under one rule or, with "", under any, until it has
// most of them or ctx ends. complete says that there are no more.
func (s *Store) Holds(ctx context.Context, db int, rule string, most int) (holds []Hold, complete bool, err error) {
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		keys, next, err := s.Client(db).Scan(ctx, cursor, Prefix+"{*:h", page).Result()
		if err == nil {
			holds, err = s.look(ctx, db, rule, keys, seen, holds)
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return holds, false, nil
		case err != nil:
			return nil, false, err
		case len(holds) > most:
			return holds[:most], false, nil
		case next == 0:
			return holds, true, nil
		}
		cursor = next
	}
}

// look appends the holds that count among these keys.
func (s *Store) look(ctx context.Context, db int, rule string, keys []string, seen map[string]bool, holds []Hold) ([]Hold, error) {
	var found []*Record
	for _, key := range keys {
		if r := recordAt(db, key, "h"); r != nil && (rule == "" || r.Rule == rule) && !seen[key] { // SCAN may name a key twice
			seen[key] = true
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return holds, nil
	}
	replies, err := s.Client(db).Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, r := range found {
			p.Get(ctx, r.hold)
			p.PTTL(ctx, r.hold)
			p.Get(ctx, r.token)
		}
		return nil
	})
	var reply redis.Error
	if err != nil && !errors.As(err, &reply) {
		return holds, err
	}
	text := func(i int) string {
		c, _ := replies[i].(*redis.StringCmd)
		return c.Val()
	}
	for i, r := range found {
		holder, token := parseHolder(text(3*i)), parseToken(text(3*i+2))
		left, _ := replies[3*i+1].(*redis.DurationCmd)
		if !holder.Held() || holder.Grant != token.Grant {
			continue
		}
		holds = append(holds, Hold{Area: r.Area, Rule: r.Rule, Session: r.Session, Holder: holder, LeaseLeft: max(left.Val(), 0)})
	}
	return holds, nil
}
