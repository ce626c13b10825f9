package doctor

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// scanMost is how many keys a scan looks at, and scanTime for how long at most.
	scanMost = 200_000
	scanTime = 3 * time.Second
	// page is how many are asked for at once.
	page = 500
)

// databases are those that have keys.
func (e *exam) databases(ctx context.Context) (all []int, err error) {
	if _, err := e.info(ctx, "db0"); err != nil {
		return nil, err
	}
	for name := range e.facts.info {
		if db, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil && strings.HasPrefix(name, "db") {
			all = append(all, db)
		}
	}
	slices.Sort(all)
	return all, nil
}

// in returns a connection to a database. The caller closes it.
func (e *exam) in(ctx context.Context, db int) (*redis.Conn, error) {
	conn := e.Redis.Conn()
	if db == e.Redis.Options().DB {
		return conn, nil
	}
	if err := conn.Select(ctx, db).Err(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// scan calls each with the keys that fit a pattern, until it returns false. whole says that it has seen all.
func (e *exam) scan(ctx context.Context, pattern string, each func(db int, key string) bool) (whole bool, err error) {
	databases, err := e.databases(ctx)
	if err != nil {
		return false, err
	}
	for _, db := range databases {
		if whole, err = e.scanIn(ctx, db, pattern, each); err != nil || !whole {
			return false, err
		}
	}
	return true, nil
}

func (e *exam) scanIn(ctx context.Context, db int, pattern string, each func(db int, key string) bool) (whole bool, err error) {
	conn, err := e.in(ctx, db)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	looked := 0
	for cursor, until := uint64(0), time.Now().Add(scanTime); ; {
		keys, next, err := conn.Scan(ctx, cursor, pattern, page).Result()
		if err != nil {
			return false, err
		}
		for _, key := range keys {
			if !each(db, key) {
				return false, nil
			}
		}
		looked += page
		switch cursor = next; {
		case cursor == 0:
			return true, nil
		case looked >= scanMost, time.Now().After(until):
			return false, nil
		}
	}
}

// globbed is a prefix as a pattern that fits all keys that begin with it.
func globbed(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix) + "*"
}
