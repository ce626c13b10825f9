package tokenstore

import "context"

// Cluster is the lock provider of sessions whose keys are in several slots of a cluster: each of them is locked in one
// place, and its grants are registered in the slots of the keys that they cover.
const Cluster = "cluster"

// dialect is how the records of one lock provider are spoken to.
type dialect struct {
	provider string
	*scripts
}

// Span has the store speak to records of sessions that span slots, too.
func (s *Store) Span(ctx context.Context) error {
	s.spanning = &dialect{Cluster, newScripts(s.header, true)}
	return s.load(ctx, s.spanning.scripts)
}

// of returns a record's dialect.
func (s *Store) of(r *Record) *dialect {
	if r.Spans && s.own.provider == Own && s.spanning != nil {
		return s.spanning
	}
	return &s.own
}

// foreign says that a record is of another provider than its own.
func (s *Store) foreign(provider string) *ProviderError {
	if provider == Own && s.spanning != nil {
		return &ProviderError{provider, s.spanning.provider}
	}
	return &ProviderError{provider, s.own.provider}
}
