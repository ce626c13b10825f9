package tokenstore

import (
	"context"

	"github.com/tidwall/redcon"

	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// AppendLook appends the look script's call, for a read that takes no hold: it answers with one reply, the
// record's token. It makes the record, or the token, if there is none.
func (s *Store) AppendLook(dst []byte, r *Record, c *Claim) []byte {
	dst = redcon.AppendArray(dst, 3+3+3)
	dst = append(dst, s.of(r).look.evalsha...)
	dst = append(dst, r.keys...)
	dst = redcon.AppendBulkString(dst, c.ttl)
	dst = appendUint(dst, s.floor.Load())
	return redcon.AppendBulkString(dst, s.of(r).provider)
}

// Look is AppendLook over the proxy's own connection.
func (s *Store) Look(ctx context.Context, r *Record, c *Claim) (Token, error) {
	part, err := s.run(ctx, &s.of(r).look, r, c.ttl, s.floor.Load(), s.of(r).provider)
	if err != nil {
		return Token{}, err
	}
	return s.looked(r, parseToken(part[0]))
}

// ParseLook reads the reply to AppendLook, or to AppendVerify in its place: a missing record then gives a zero Token.
// Errors: ErrNoScript, *ProviderError, *StoreError.
func (s *Store) ParseLook(r *Record, frame []byte) (Token, error) {
	v, _, err := resp.ParseValue(frame)
	if err != nil {
		return Token{}, err
	}
	if v.IsError() {
		return Token{}, replyError(string(v.Str))
	}
	return s.looked(r, parseToken(string(v.Str)))
}

func (s *Store) looked(r *Record, t Token) (Token, error) {
	d := s.of(r)
	if t.Provider != "" && t.Provider != d.provider {
		return Token{}, &ProviderError{Record: t.Provider, Configured: d.provider}
	}
	if d.outside && t.StoredSeq == 0 {
		s.raise(t.StoredGrant)
	}
	s.saw(t.Grant)
	return t, nil
}
