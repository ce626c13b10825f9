package tokenstore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Owners that each wait for a session that the next one holds would wait until their time is over. Whoever waits while
// it holds another session says so at the store, in a key of its own, and then follows the others' keys from holder to
// holder. Each says it before it looks, so that at least the last one sees the whole circle.

// circleMost bounds the owners that are followed.
const circleMost = 16

// circleLife is how long the victim of a circle keeps the others of it from becoming one, too: until it has given way,
// or is gone itself.
const circleLife = 5 * time.Second

// Circle is a session that an owner holds, for which somebody waits who holds up that owner.
type Circle struct {
	DB    int
	Token string // the record's token key
}

// circleKey is the same for whoever looks.
func circleKey(holds []string) string {
	slices.Sort(holds)
	h := fnv.New64a()
	_, _ = io.WriteString(h, strings.Join(holds, "\n")) // it never fails
	return Prefix + "circle:" + strconv.FormatUint(h.Sum64(), 16)
}

func waitKey(owner string) string { return Prefix + "waits:" + owner }

// Waits says that an owner who holds other sessions stands in line for one, for so long at most. The waiter is in the
// session's queue already; "": the line is elsewhere.
func (s *Store) Waits(ctx context.Context, r *Record, c *Claim, waiter string, left time.Duration) error {
	value := strconv.Itoa(r.DB) + " " + r.token + "\n" + waiter + "\n" + c.Owner + "\n" + c.info
	return s.Client(0).Set(ctx, waitKey(c.Owner), value, max(left, time.Millisecond)).Err()
}

// WaitsNoMore takes that back.
func (s *Store) WaitsNoMore(ctx context.Context, c *Claim) error {
	return s.Client(0).Del(ctx, waitKey(c.Owner)).Err()
}

// InCircle reports whether an owner that waits for a session is in a circle, and makes it the victim if no other
// owner of the circle has just become it.
func (s *Store) InCircle(ctx context.Context, r *Record, owner string) (circle Circle, victim bool, err error) {
	at := Circle{r.DB, r.token}
	members := []string{owner}
	var holds []string // that close the circle: no other circle has the same
	for range circleMost {
		h, err := s.holderAt(ctx, at)
		holds = append(holds, fmt.Sprintf("%d %s %d", at.DB, at.Token, h.Grant))
		switch {
		case err != nil || !h.Held():
			return Circle{}, false, err
		case h.Owner == owner && len(members) == 1:
			return Circle{}, false, nil // it has just been granted the session
		case h.Owner == owner:
			victim, err := s.Client(0).SetNX(ctx, circleKey(holds), owner, circleLife).Result()
			return at, victim, err
		case slices.Contains(members, h.Owner):
			return Circle{}, false, nil // a circle of others
		}
		members = append(members, h.Owner)
		if at, err = s.waitsAt(ctx, h.Owner); err != nil || at.Token == "" {
			return Circle{}, false, err
		}
	}
	return Circle{}, false, nil
}

// holderAt returns who holds a session now.
func (s *Store) holderAt(ctx context.Context, c Circle) (Holder, error) {
	v, err := s.Client(c.DB).MGet(ctx, c.Token, strings.TrimSuffix(c.Token, "t")+"h").Result()
	if err != nil || len(v) != 2 {
		return Holder{}, err
	}
	token, _ := v[0].(string)
	hold, _ := v[1].(string)
	h := parseHolder(hold)
	if h.Grant != parseToken(token).Grant {
		return Holder{}, nil
	}
	return h, nil
}

// waitsAt returns for which session an owner stands in line while it holds another; the zero Circle: for none.
func (s *Store) waitsAt(ctx context.Context, owner string) (Circle, error) {
	v, err := s.Client(0).Get(ctx, waitKey(owner)).Result()
	if errors.Is(err, redis.Nil) {
		return Circle{}, nil
	}
	if err != nil {
		return Circle{}, err
	}
	where, entry, _ := strings.Cut(v, "\n")
	number, token, _ := strings.Cut(where, " ")
	db, err := strconv.Atoi(number)
	if err != nil {
		return Circle{}, fmt.Errorf("%s says %q", waitKey(owner), v)
	}
	if strings.HasPrefix(entry, "\n") {
		return Circle{db, token}, nil
	}
	err = s.Client(db).ZScore(ctx, strings.TrimSuffix(token, "t")+"q", entry).Err()
	if errors.Is(err, redis.Nil) {
		return Circle{}, nil // not any more
	}
	return Circle{db, token}, err
}
