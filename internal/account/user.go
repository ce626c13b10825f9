package account

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/fence-proxy/fence-proxy/internal/secret"
)

// User is one entry of users in the configuration.
type User struct {
	// Name is what the user logs in with. AUTH with a password alone is for the
	// user "default".
	Name string `yaml:"name"`
	// Passwords are those that it may log in with, as they are, or "#" and the
	// SHA-256 of one in hex, as Redis's ACL has them. Default none.
	Passwords []string `yaml:"passwords"`
	// PasswordFile is a file with more, one a line; it may be replaced while the
	// proxy runs. Default "".
	PasswordFile string `yaml:"password_file"`
	// PasswordEnv is the name of a variable with one more. Default "".
	PasswordEnv string `yaml:"password_env"`
	// Admin lets the user say FENCE.BREAK. Default false.
	Admin bool `yaml:"admin"`
}

// FieldError is a mistake in one option of a user.
type FieldError struct{ Field, Problem, Remedy string }

// Check returns what is wrong with a user.
func (u *User) Check() []FieldError {
	var found []FieldError
	refuse := func(field, problem, remedy string) {
		found = append(found, FieldError{field, problem, remedy})
	}
	if u.Name == "" || strings.ContainsAny(u.Name, " \x00\r\n\t") {
		refuse("name", fmt.Sprintf("%q can't be a user's name", u.Name), "write one without spaces")
	}
	if len(u.Passwords) == 0 && u.PasswordFile == "" && u.PasswordEnv == "" {
		refuse("passwords", "is missing, and so are password_file and password_env", "give one of them: nobody could log in")
	}
	for _, password := range u.Passwords {
		switch _, err := digestOf(password); {
		case password == "":
			refuse("passwords", "has an empty one", "remove it")
		case err != nil:
			refuse("passwords", err.Error(), wrongDigest)
		}
	}
	if u.PasswordFile != "" {
		all, err := secret.Read(u.PasswordFile)
		if err != nil {
			refuse("password_file", "can't be read: "+err.Error(), "check the path and its mode")
		}
		if _, err := digestsOf(all); err != nil {
			refuse("password_file", err.Error(), wrongDigest)
		}
	}
	if u.PasswordEnv != "" {
		switch _, err := digestOf(os.Getenv(u.PasswordEnv)); {
		case os.Getenv(u.PasswordEnv) == "":
			refuse("password_env", "the variable that it names is not set", "set it, or name another")
		case err != nil:
			refuse("password_env", err.Error(), wrongDigest)
		}
	}
	return found
}

const wrongDigest = "write # and 64 digits, as in printf %s the-password | sha256sum"

// errDigest says that what looks like a digest is none: it is no password either, since a slip would be taken for one.
var errDigest = fmt.Errorf("has one that begins with # and %d characters follow that are no SHA-256 in hex", 2*sha256.Size)

// digest is the SHA-256 of a password.
type digest = [sha256.Size]byte

// digestOf is the digest of a password as it is configured.
func digestOf(text string) (d digest, err error) {
	hexed, given := strings.CutPrefix(text, "#")
	if !given || len(hexed) != 2*sha256.Size {
		return sha256.Sum256([]byte(text)), nil
	}
	if _, err := hex.Decode(d[:], []byte(hexed)); err != nil {
		return d, errDigest
	}
	return d, nil
}

func digestsOf(passwords []string) ([]digest, error) {
	all := make([]digest, 0, len(passwords))
	for _, text := range passwords {
		d, err := digestOf(text)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// String says who it is; the passwords are not in it.
func (u *User) String() string { return u.Name }

// GoString is String, for %#v.
func (u *User) GoString() string { return u.String() }

// LogValue is String, for slog.
func (u *User) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText is String, for encoders. It does not fail.
func (u *User) MarshalText() ([]byte, error) { return []byte(u.String()), nil }
