package proxy

import (
	"context"
	"strings"
	"sync/atomic"
)

// nested is what the server makes of a MULTI or WATCH inside a transaction, an error in any case: Redis goes on with the
// transaction, Valkey since 8.1 aborts it. It is asked when the first client does that.
type nested struct{ known atomic.Int32 }

const (
	nestedGoesOn = iota + 1
	nestedAborts
)

// aborts reports whether the transaction is aborted. It counts as aborted if the server can't be asked: then nothing is applied.
func (n *nested) aborts(of commands) bool {
	if known := n.known.Load(); known != 0 {
		return known == nestedAborts
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	conn := of.store.Client(0).Conn()
	defer conn.Close()
	if conn.Do(ctx, "MULTI").Err() != nil {
		return true
	}
	_ = conn.Do(ctx, "MULTI").Err()
	err := conn.Do(ctx, "EXEC").Err()
	switch {
	case err == nil:
		n.known.Store(nestedGoesOn)
		return false
	case strings.HasPrefix(err.Error(), "EXECABORT"):
		n.known.Store(nestedAborts)
	}
	return true
}
