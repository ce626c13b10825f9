package tokenstore

import "strconv"

// Basis is what an owner's reads of a session stand on. They are current as long as it is.
type Basis struct {
	// Grant is the hold under which they were made; it stands while nobody has been granted the session since.
	Grant uint64
	// Stored is the last token that was stored when they were made without a hold; it stands until
	// another is stored. It counts where Grant is 0.
	Stored Stamp
}

// Stamp is a token that was stored. A look gives a record without one the stamp (n, 0) of its newest grant, or of the clock
// where grants come from elsewhere, so that no two
// records of a session have one in common: what was read before a record was lost never looks current after it.
type Stamp struct{ Grant, Seq uint64 }

// Current reports whether what was read still stands by a record that was seen since.
func (b Basis) Current(t Token) bool {
	if b.Grant > 0 {
		return t.Grant == b.Grant
	}
	return t.Stamp() == b.Stored
}

func (b Basis) encode() string {
	if b.Grant > 0 || b.Stored == (Stamp{}) {
		return strconv.FormatUint(b.Grant, 10)
	}
	return "s" + b.Stored.encode()
}

func (s Stamp) encode() string {
	return strconv.FormatUint(s.Grant, 10) + " " + strconv.FormatUint(s.Seq, 10)
}

// Stamp is the last token stored in the record. The zero Stamp: there is none, or no record, and a look has to make one.
func (t Token) Stamp() Stamp { return Stamp{t.StoredGrant, t.StoredSeq} }
