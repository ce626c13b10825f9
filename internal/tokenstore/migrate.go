package tokenstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Migration says which records to give to the store's lock provider.
type Migration struct {
	// Rule names the rule whose records are meant; "": all.
	Rule string
	// TTL is how long a record of a rule stays at least.
	TTL func(rule string) time.Duration
	// Force includes records that are held: their holders are refused.
	Force bool
	// Again includes records that are this provider's already, for one that has begun to count anew.
	Again bool
	// Dry only says what would be done.
	Dry bool
}

// Moved is what became of a record.
type Moved struct {
	*Record
	From   string // its provider so far
	Holder Holder // who holds it, if it was left alone for that
}

// Migrate gives the records of a database to the store's lock provider, and reports each that was given, or left alone since
// it is held. From then on no write under an earlier grant is applied, of whatever provider. It stops at the first error.
func (s *Store) Migrate(ctx context.Context, db int, m Migration, report func(Moved)) error {
	seen := map[string]bool{}
	for cursor := uint64(0); ; {
		keys, next, err := s.Client(db).Scan(ctx, cursor, Prefix+"{*:t", page).Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			if seen[key] { // SCAN may name a key twice
				continue
			}
			seen[key] = true
			r := recordAt(db, key, "t")
			if r == nil || m.Rule != "" && r.Rule != m.Rule {
				continue
			}
			if err := s.migrate(ctx, r, m, report); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (s *Store) migrate(ctx context.Context, r *Record, m Migration, report func(Moved)) error {
	part, err := s.run(ctx, &s.of(r).migrate, r, s.of(r).provider, millis(m.TTL(r.Rule)), flag(m.Force), flag(m.Again), flag(m.Dry))
	if err != nil {
		return fmt.Errorf("%v: %w", r, err)
	}
	if len(part) != 3 {
		return fmt.Errorf("%v: the script answered %q", r, part)
	}
	switch part[0] {
	case "migrated":
		report(Moved{Record: r, From: part[2]})
	case "held":
		report(Moved{Record: r, From: part[2], Holder: parseHolder(part[1])})
	}
	return nil
}

// Databases returns the databases that have keys.
func (s *Store) Databases(ctx context.Context) ([]int, error) {
	info, err := s.Client(0).Info(ctx, "keyspace").Result()
	if err != nil {
		return nil, err
	}
	var all []int
	for line := range strings.Lines(info) {
		name, _, _ := strings.Cut(line, ":")
		if db, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil && strings.HasPrefix(name, "db") {
			all = append(all, db)
		}
	}
	return all, nil
}

// HolderOf returns who holds a session, if anybody does.
func (s *Store) HolderOf(ctx context.Context, r *Record) (Holder, error) {
	return s.holderAt(ctx, Circle{r.DB, r.token})
}

// Tell tells a proxy over its wake-up channel that something was done to a hold of one of its owners.
func (s *Store) Tell(ctx context.Context, h Holder) error {
	id, _, _ := strings.Cut(strings.TrimPrefix(h.Owner, ApartPrefix), ":")
	return s.Client(0).Publish(ctx, WakeChannel(id), h.Owner+" "+strconv.FormatUint(h.Grant, 10)).Err()
}
