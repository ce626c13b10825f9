// Package secret reads passwords from files that may be replaced while the proxy runs, as Kubernetes replaces those of a Secret.
// What is in them is in no error and no log.
package secret

import (
	"errors"
	"os"
	"strings"
	"sync"
)

// ErrEmpty says that a file has no password in it.
var ErrEmpty = errors.New("the file has no password in it")

// File is a file with passwords, one a line. It is safe for concurrent use.
type File struct {
	path string
	bad  func(error)

	mu   sync.Mutex
	last []string // that could be read
	told string   // what bad was told of last
}

// NewFile returns the file at a path. bad is told, once, of each new trouble with it; what was read before goes on to count then.
func NewFile(path string, bad func(error)) *File { return &File{path: path, bad: bad} }

// Read returns a file's passwords: its lines without their ends, but for empty ones. Errors: ErrEmpty, a *fs.PathError.
func Read(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if line = strings.TrimSuffix(line, "\r"); line != "" {
			all = append(all, line)
		}
	}
	if all == nil {
		return nil, ErrEmpty
	}
	return all, nil
}

// Passwords reads the file. Nil: it never could be read.
func (f *File) Passwords() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, err := Read(f.path)
	switch {
	case err == nil:
		f.last, f.told = all, ""
	case err.Error() != f.told:
		f.told = err.Error()
		f.bad(err)
	}
	return f.last
}
