package proxy

// state is what a client's upstream connection is in, as far as the guard must know.
type state struct {
	db       int
	name     string // CLIENT SETNAME
	multi    bool   // between MULTI and EXEC or DISCARD
	refused  bool   // a command of the transaction was refused: its EXEC must fail
	selected int    // the database of a SELECT queued in the transaction, or -1
	watching bool   // the client has keys under WATCH
	proto    int    // 2 or 3
	alone    bool   // keeps to an upstream connection of its own
	raw      bool   // replies go downstream unframed: nothing can be guarded any more
}

func newState(db int) state { return state{db: db, proto: 2, selected: -1} }

// endMulti is EXEC or DISCARD.
func (s *state) endMulti() {
	s.multi, s.refused, s.watching, s.selected = false, false, false, -1
}
