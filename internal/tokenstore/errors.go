package tokenstore

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoScript says that the server does not know a script: load the scripts and try again.
	// Nothing was granted or written.
	ErrNoScript = errors.New("the store does not know the fence scripts")
	// ErrLost says that a hold is gone: another grant was issued, or its record is missing.
	ErrLost = errors.New("the hold is lost")
	// ErrLapsed says that a hold's lease has ended, though its grant is still the newest.
	ErrLapsed = errors.New("the hold's lease has ended")
)

// ProviderError says that the record belongs to another lock provider. Grants of different
// providers don't compare, so nothing is granted or written.
type ProviderError struct{ Record, Configured string }

func (e *ProviderError) Error() string {
	return fmt.Sprintf("the session's fence record was made by lock provider %q, this proxy uses %q: "+
		"point every proxy at one provider, then run fence-proxy migrate, or wait until the record expires", e.Record, e.Configured)
}

// StoreError is an error reply of the store to one of the fence's own commands. The client's
// command was not applied.
type StoreError struct{ Reply string }

func (e *StoreError) Error() string { return "the store refused the fence: " + e.Reply }

// replyError turns an error reply into an error.
func replyError(reply string) error {
	if strings.HasPrefix(reply, "NOSCRIPT") {
		return ErrNoScript
	}
	return &StoreError{Reply: reply}
}
