package config

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/pflag"
)

const (
	// lookEvery is how often the file is looked at. Reading it is cheap, and tells more than its time and size: it sees through
	// the links that a ConfigMap consists of, editors that put another file in its place, and what a file server keeps to itself.
	lookEvery = time.Second
	// settleTime is how long a file has to stay the same before it counts, for it may be only half written.
	settleTime = 200 * time.Millisecond
)

// Why a configuration can't be read again.
var (
	ErrNoFile    = errors.New("there is no configuration file: nothing to reload")
	errNoRegular = errors.New("it is no regular file, and can't be read again")
)

// Source is where a configuration comes from, so that it can be read again. It is one goroutine's.
type Source struct {
	path  string
	flags *pflag.FlagSet

	regular bool     // it can be read again
	last    contents // what was loaded last, or tried to
}

// contents are a file's, or why it can't be read.
type contents struct {
	data []byte
	err  error
}

func (c contents) same(o contents) bool {
	return bytes.Equal(c.data, o.data) && (c.err == nil) == (o.err == nil) && (c.err == nil || c.err.Error() == o.err.Error())
}

// News is what became of a configuration that was read again.
type News struct {
	Config *Config
	Err    error // why there is none
	Asked  bool  // somebody asked for it: it need not have changed
}

// NewSource returns the source that Load(path, flags) reads.
func NewSource(path string, flags *pflag.FlagSet) *Source { return &Source{path: path, flags: flags} }

// Path is the file's path; "" for none.
func (s *Source) Path() string { return s.path }

// Load reads the configuration; its error is as that of the function Load.
func (s *Source) Load() (*Config, error) {
	if s.path != "" {
		s.last.data, s.last.err = os.ReadFile(s.path)
		info, err := os.Stat(s.path)
		s.regular = err == nil && info.Mode().IsRegular()
	}
	return assemble(s.path, s.last, s.flags)
}

// Next waits until the file is another than was loaded last, or now receives, and loads it. A file that can't be used
// is reported once. The error is ctx's, when it ends.
func (s *Source) Next(ctx context.Context, now <-chan os.Signal) (News, error) {
	var seen *contents // another than the last, once
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return News{}, ctx.Err()
		case <-now:
			if !s.regular {
				return News{Err: ErrNoFile, Asked: true}, nil
			}
			return s.take(s.again(), true), nil
		case <-look.C:
		}
		pause := lookEvery
		if s.regular {
			switch is := s.again(); {
			case is.same(s.last):
				seen = nil
			case seen == nil || !is.same(*seen):
				seen, pause = &is, settleTime
			default:
				return s.take(is, false), nil
			}
		}
		look.Reset(pause)
	}
}

// again reads the file, which must not be one that may keep the reader waiting.
func (s *Source) again() contents {
	if info, err := os.Stat(s.path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return contents{err: errNoRegular}
	}
	data, err := os.ReadFile(s.path)
	return contents{data, err}
}

func (s *Source) take(c contents, asked bool) News {
	s.last = c
	cfg, err := assemble(s.path, c, s.flags)
	return News{Config: cfg, Err: err, Asked: asked}
}
