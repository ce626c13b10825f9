package tokenstore

import (
	"strconv"
	"strings"
	"time"
)

// Identity says who an owner is, for the people who read the messages.
type Identity struct {
	Proxy  string // the proxy's name
	Client string // the client's address
	Name   string // the client's CLIENT SETNAME, may be empty
}

// encode is the "info" of the scripts. Line breaks cannot occur inside a part.
func (i Identity) encode() string {
	clean := strings.NewReplacer("\n", " ", "\r", " ")
	return clean.Replace(i.Proxy) + "\n" + clean.Replace(i.Client) + "\n" + clean.Replace(i.Name)
}

// Holder is the hold that a script found.
type Holder struct {
	Identity
	Owner string
	Grant uint64
	Since time.Time // when it was granted, by the store's clock
}

// Held reports whether there is a holder at all.
func (h Holder) Held() bool { return h.Owner != "" }

// parseHolder reads the value of a hold key; an empty or foreign one gives the zero Holder.
func parseHolder(raw string) Holder {
	part := strings.SplitN(raw, "\n", 7)
	if len(part) != 7 {
		return Holder{}
	}
	grant, err := strconv.ParseUint(part[1], 10, 64)
	if err != nil {
		return Holder{}
	}
	since, err := strconv.ParseInt(part[2], 10, 64)
	if err != nil {
		return Holder{}
	}
	return Holder{
		Identity: Identity{Proxy: part[4], Client: part[5], Name: part[6]},
		Owner:    part[0], Grant: grant, Since: time.UnixMilli(since),
	}
}

// Token is the state of a token key.
type Token struct {
	Grant       uint64 // newest grant issued; 0: the record is missing
	StoredGrant uint64 // last token stored
	StoredSeq   uint64
	Provider    string
}

func parseToken(raw string) Token {
	part := strings.Split(raw, " ")
	if len(part) != 4 {
		return Token{}
	}
	var n [3]uint64
	for i := range n {
		v, err := strconv.ParseUint(part[i], 10, 64)
		if err != nil {
			return Token{}
		}
		n[i] = v
	}
	return Token{Grant: n[0], StoredGrant: n[1], StoredSeq: n[2], Provider: part[3]}
}
