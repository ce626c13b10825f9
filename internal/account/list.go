package account

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fence-proxy/fence-proxy/internal/secret"
)

// lookEvery is the time between two looks at the files.
const lookEvery = time.Second

// Account is a user that has logged in. It does not change.
type Account struct {
	Name  string
	Admin bool
}

// List is who may log in. It is safe for concurrent use.
type List struct {
	bad func(name string, err error)

	mu      sync.Mutex
	looked  time.Time
	entries []entry
}

// entry is one user.
type entry struct {
	account *Account
	name    digest
	fixed   []digest     // its passwords, but for those in
	file    *secret.File // nil: none
	filed   []digest     // what was in the file, when it was last looked at and was good
	wrong   bool         // it has no good digest, and bad was told
}

// New makes a list of users, which have been checked; nil of none. bad is told, once, of each new trouble with a user's file: what was
// read before goes on to count then.
func New(users []*User, bad func(name string, err error)) (*List, error) {
	if len(users) == 0 {
		return nil, nil //nolint:nilnil // nobody is asked, and that is no error
	}
	l := &List{bad: bad, looked: time.Now()}
	for _, u := range users {
		passwords := slices.Clone(u.Passwords)
		if u.PasswordEnv != "" {
			passwords = append(passwords, os.Getenv(u.PasswordEnv))
		}
		fixed, err := digestsOf(passwords)
		if err != nil {
			return nil, fmt.Errorf("user %s: a password %w", u.Name, err)
		}
		e := entry{account: &Account{u.Name, u.Admin}, name: sha256.Sum256([]byte(u.Name)), fixed: fixed}
		if u.PasswordFile != "" {
			e.file = secret.NewFile(u.PasswordFile, func(err error) { bad(u.Name, err) })
			e.read(bad)
		}
		l.entries = append(l.entries, e)
	}
	return l, nil
}

// read looks at an entry's file.
func (e *entry) read(bad func(name string, err error)) {
	all, err := digestsOf(e.file.Passwords())
	switch {
	case err == nil:
		e.filed, e.wrong = all, false
	case !e.wrong:
		e.wrong = true
		bad(e.account.Name, err)
	}
}

// Check returns the account of a name and a password, or nil.
func (l *List) Check(name, password []byte) *Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.looked) >= lookEvery {
		for i := range l.entries {
			if e := &l.entries[i]; e.file != nil {
				e.read(l.bad)
			}
		}
		l.looked = time.Now()
	}
	givenName, given := sha256.Sum256(name), sha256.Sum256(password)
	var found *Account
	for i := range l.entries {
		e, right := &l.entries[i], 0
		for _, d := range e.fixed {
			right |= subtle.ConstantTimeCompare(d[:], given[:])
		}
		for _, d := range e.filed {
			right |= subtle.ConstantTimeCompare(d[:], given[:])
		}
		if right&subtle.ConstantTimeCompare(e.name[:], givenName[:]) == 1 {
			found = e.account
		}
	}
	return found
}

// Find returns the account of a name, or nil.
func (l *List) Find(name string) *Account {
	if l == nil {
		return nil
	}
	for i := range l.entries { // they don't change, but for what is in files
		if l.entries[i].account.Name == name {
			return l.entries[i].account
		}
	}
	return nil
}
