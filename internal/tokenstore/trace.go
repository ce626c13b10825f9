package tokenstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// saltKey has the salt of the hashes under which sessions are shown.
	saltKey = Prefix + "salt"
	// noteMost is how many of a session's holds are noted, the newest ones.
	noteMost = 16
	// noteTTL is how long notes outlive the last one of their session.
	noteTTL = 10 * time.Minute
)

// Note says in which trace of an application a hold's sequence is.
type Note struct {
	Area
	Rule, Session string
	Grant         uint64
	Trace         string // no blanks; "" if it is not known
	Next          uint64 // a hold that has come since: who has the session now, or has written last; 0 if none has, or is known
}

// Salt returns what all proxies of the store make their hashes with. The first one to ask makes it up.
func (s *Store) Salt(ctx context.Context) (string, error) {
	salt := rand.Text()
	err := s.Client(0).SetArgs(ctx, saltKey, salt, redis.SetArgs{Mode: "NX"}).Err()
	if errors.Is(err, redis.Nil) {
		salt, err = s.Client(0).Get(ctx, saltKey).Result()
	}
	if err != nil {
		return "", fmt.Errorf("ask the store for its salt: %w", err)
	}
	return salt, nil
}

// KeepNotes keeps notes beside the records of their sessions, for some minutes.
func (s *Store) KeepNotes(ctx context.Context, notes []Note) error {
	beyond, err := s.eachNote(ctx, notes, func(p redis.Pipeliner, n *Note) redis.Cmder {
		key := notesKey(n)
		p.ZAdd(ctx, key, redis.Z{Score: float64(n.Grant), Member: strconv.FormatUint(n.Grant, 10) + " " + n.Trace})
		p.PExpire(ctx, key, noteTTL)
		return p.ZRange(ctx, key, 0, -1-noteMost)
	})
	if err != nil {
		return err
	}
	_, err = s.eachNote(ctx, notes, func(p redis.Pipeliner, n *Note) redis.Cmder {
		if old := lines(beyond[n]); len(old) > 0 {
			return p.ZRem(ctx, notesKey(n), old)
		}
		return nil
	})
	return err
}

// FindNotes fills in Trace of those notes that were kept.
func (s *Store) FindNotes(ctx context.Context, notes []Note) error {
	kept, err := s.eachNote(ctx, notes, func(p redis.Pipeliner, n *Note) redis.Cmder {
		return p.ZRange(ctx, notesKey(n), 0, -1)
	})
	for n, all := range kept {
		for _, line := range lines(all) {
			if grant, trace, _ := strings.Cut(line, " "); grant == strconv.FormatUint(n.Grant, 10) {
				n.Trace = trace
			}
		}
	}
	return err
}

// FindNext fills in Next of the notes.
func (s *Store) FindNext(ctx context.Context, notes []Note) error {
	held, err := s.eachNote(ctx, notes, func(p redis.Pipeliner, n *Note) redis.Cmder { return p.Get(ctx, recordOf(n).hold) })
	if err != nil {
		return err
	}
	stored, err := s.eachNote(ctx, notes, func(p redis.Pipeliner, n *Note) redis.Cmder { return p.Get(ctx, recordOf(n).token) })
	for n, token := range stored {
		n.Next = max(parseHolder(text(held[n])).Grant, parseToken(text(token)).StoredGrant)
		if n.Next <= n.Grant {
			n.Next = 0
		}
	}
	return err
}

func recordOf(n *Note) *Record { return NewRecord(n.Area, n.Rule, n.Session) }

// eachNote asks the store about notes, in one go for each database, and returns the answers by note.
func (s *Store) eachNote(ctx context.Context, notes []Note, ask func(redis.Pipeliner, *Note) redis.Cmder) (map[*Note]redis.Cmder, error) {
	byDB := map[int][]*Note{}
	for i := range notes {
		byDB[notes[i].DB] = append(byDB[notes[i].DB], &notes[i])
	}
	answers := make(map[*Note]redis.Cmder, len(notes))
	for db, all := range byDB {
		asked := make([]redis.Cmder, len(all))
		_, err := s.Client(db).Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, n := range all {
				asked[i] = ask(p, n)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("notes of traces: %w", err)
		}
		for i, n := range all {
			answers[n] = asked[i]
		}
	}
	return answers, nil
}

func lines(answer redis.Cmder) []string {
	if c, ok := answer.(*redis.StringSliceCmd); ok {
		return c.Val()
	}
	return nil
}

func text(answer redis.Cmder) string {
	if c, ok := answer.(*redis.StringCmd); ok {
		return c.Val()
	}
	return ""
}

// notesKey is beside the keys of the session's record.
func notesKey(n *Note) string { return Prefix + "{" + n.Rule + ":" + n.Session + "}:x" }
