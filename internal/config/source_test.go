package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const two = "limits:\n  connections: 2\n"

// put writes a file.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// watched runs a test in a bubble, with a source whose file has been loaded.
func watched(t *testing.T, text string, test func(t *testing.T, s *Source)) {
	t.Helper()
	path := write(t, text)
	synctest.Test(t, func(t *testing.T) {
		s := NewSource(path, nil)
		if _, err := s.Load(); err != nil {
			t.Fatal(err)
		}
		test(t, s)
	})
}

// hears fails the test unless the source has this to say within d, or nothing if want is empty.
func (s *Source) hears(t *testing.T, d time.Duration, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	got := ""
	if news, err := s.Next(ctx, nil); err == nil {
		got = "changed"
		if news.Err != nil {
			got = news.Err.Error()
		}
		if news.Asked || (news.Config == nil) != (news.Err != nil) {
			t.Errorf("the news are %+v", news)
		}
	}
	if got != want {
		t.Fatalf("it says %q, want %q", got, want)
	}
}

const soon = lookEvery + 2*settleTime

func TestAChangeOfTheFileIsNoticed(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"written":          func(t *testing.T, path string) { t.Helper(); put(t, path, two) },
		"put in its place": func(t *testing.T, path string) { t.Helper(); put(t, "new", two); rename(t, "new", path) },
		"removed and made": func(t *testing.T, path string) { t.Helper(); _ = os.Remove(path); put(t, path, two) },
		"linked to another": func(t *testing.T, path string) {
			t.Helper()
			put(t, "new", two)
			_ = os.Remove(path)
			link(t, "new", path)
		},
		"written in the same moment, as long as before": func(t *testing.T, path string) {
			t.Helper()
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			put(t, path, two)
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, strings.Replace(two, "2", "1", 1), func(t *testing.T, s *Source) {
				t.Helper()
				s.hears(t, time.Minute, "")
				change(t, s.Path())
				s.hears(t, soon, "changed")
				s.hears(t, time.Minute, "")
			})
		})
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// As kubelet does it: config.yaml -> ..data/config.yaml, ..data -> a directory, and a new one is put in its place.
func TestTheSwapOfAConfigMapIsNoticed(t *testing.T) {
	t.Chdir(t.TempDir())
	publish := func(directory, text string) {
		t.Helper()
		if err := os.Mkdir(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(directory, "config.yaml"), text)
		link(t, directory, "..data_tmp")
		rename(t, "..data_tmp", "..data")
	}
	publish("..first", strings.Replace(two, "2", "1", 1))
	link(t, "..data/config.yaml", "config.yaml")
	synctest.Test(t, func(t *testing.T) {
		s := NewSource("config.yaml", nil)
		if _, err := s.Load(); err != nil {
			t.Fatal(err)
		}
		publish("..second", two)
		if err := os.RemoveAll("..first"); err != nil {
			t.Fatal(err)
		}
		s.hears(t, soon, "changed")
	})
}

func TestAFileIsNotReadWhileItIsWritten(t *testing.T) {
	watched(t, two, func(t *testing.T, s *Source) {
		t.Helper()
		go func() {
			for i := range 30 {
				put(t, s.Path(), two[:i%len(two)])
				time.Sleep(settleTime - time.Millisecond)
			}
			put(t, s.Path(), two+"drain: 1s\n")
		}()
		s.hears(t, time.Minute, "changed")
	})
}

func TestAFileThatIsGoneForAMomentIsNoMistake(t *testing.T) {
	watched(t, two, func(t *testing.T, s *Source) {
		t.Helper()
		time.AfterFunc(lookEvery-1, func() { rename(t, s.Path(), "away") })
		time.AfterFunc(lookEvery+settleTime-1, func() { rename(t, "away", s.Path()) })
		s.hears(t, time.Minute, "")
	})
}

func TestAFileThatCannotBeUsedIsReportedOnce(t *testing.T) {
	watched(t, two, func(t *testing.T, s *Source) {
		t.Helper()
		put(t, s.Path(), "limits:\n  conections: 2\n")
		s.hears(t, soon, "config.yaml:2: limits.conections: is not an option: did you mean connections?")
		s.hears(t, time.Minute, "")
		_ = os.Remove(s.Path())
		s.hears(t, soon, "config.yaml: does not exist: check the path; it counts from the working directory unless it begins with /")
		s.hears(t, time.Minute, "")
		if err := syscall.Mkfifo(s.Path(), 0o600); err != nil {
			t.Fatal(err)
		}
		s.hears(t, soon, "config.yaml: cannot be read: it is no regular file, and can't be read again")
		s.hears(t, time.Minute, "")
		_ = os.Remove(s.Path())
		put(t, s.Path(), two)
		s.hears(t, soon, "changed")
	})
}

func TestWhoAsksHearsAtOnce(t *testing.T) {
	watched(t, two, func(t *testing.T, s *Source) {
		t.Helper()
		now := make(chan os.Signal, 1)
		ask := func() News {
			t.Helper()
			start := time.Now()
			now <- syscall.SIGHUP
			news, err := s.Next(t.Context(), now)
			if err != nil || !news.Asked || time.Since(start) > 0 {
				t.Errorf("%v, %+v after %v", err, news, time.Since(start))
			}
			return news
		}
		if news := ask(); news.Err != nil {
			t.Error(news.Err)
		}
		put(t, s.Path(), "{")
		if news := ask(); news.Err == nil {
			t.Error("a bad file is loaded")
		}
		s.hears(t, time.Minute, "") // it was reported
	})
	for name, path := range map[string]string{"without a file": "", "of a device": os.DevNull} {
		s := NewSource(path, nil)
		_, _ = s.Load()
		now := make(chan os.Signal, 1)
		now <- syscall.SIGHUP
		if news, err := s.Next(t.Context(), now); err != nil || !errors.Is(news.Err, ErrNoFile) {
			t.Errorf("%s: %v, %+v", name, err, news)
		}
	}
}

func TestVariablesAndFlagsKeepTheirPrecedenceWhenTheFileChanges(t *testing.T) {
	path := write(t, "name: of-the-file\nlog:\n  level: info\n")
	t.Setenv("FENCE_NAME", "of-the-variable")
	s := NewSource(path, flags(t, "--log-level", "warn"))
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	put(t, path, "name: new\ndrain: 1s\nlog:\n  level: debug\n")
	news, err := s.Next(t.Context(), nil)
	if err != nil || news.Err != nil {
		t.Fatal(err, news.Err)
	}
	if cfg := news.Config; cfg.Name != "of-the-variable" || cfg.Log.Level != "warn" || cfg.Drain != time.Second {
		t.Error(cfg)
	}
}

func TestARunningProxyTakesOverWhatItCan(t *testing.T) {
	const before = `
listen: "127.0.0.1:1"
upstream:
  url: "redis://:secret@one:1"
rules:
  - {name: kept, prefix: "k:"}
  - {name: gone, prefix: "g:"}
  - {name: other, prefix: "o:"}
`
	const after = `
listen: "127.0.0.1:2"
drain: 1m
upstream:
  url: "redis://:secret@two:1"
limits: {connections: 1, request: 1mb, pipeline: 2, waiters: 3, nesting: 100}
log: {level: debug, format: json}
rules:
  - {name: kept, prefix: "k:"}
  - {name: other, prefix: "o:", wait: 1s}
  - {name: new, prefix: "n:"}
`
	running, next := load(t, before), load(t, after)
	cfg, changed, restart := running.Revised(next)
	if want := []string{
		"drain", "limits.connections", "limits.request", "limits.pipeline", "limits.waiters", "log.level", "rule other changed", "rule new added", "rule gone removed",
	}; !slices.Equal(changed, want) {
		t.Errorf("changed: %q", changed)
	}
	if want := []string{"listen", "upstream.url", "limits.nesting", "log.format"}; !slices.Equal(restart, want) {
		t.Errorf("restart: %q", restart)
	}
	if cfg.Listen != running.Listen || cfg.Upstream != running.Upstream || cfg.Log.Format != "text" || cfg.Limits.Nesting != running.Limits.Nesting {
		t.Errorf("it has taken over what it can't: %v", cfg)
	}
	if cfg.Drain != time.Minute || cfg.Limits.Connections != 1 || cfg.Log.Level != "debug" || len(cfg.Rules) != 3 || cfg.Set != next.Set {
		t.Errorf("it has not taken over what it can: %v", cfg)
	}
	if running.Drain != 5*time.Second || running.Set.Match([]byte("n:")) != nil {
		t.Error("the old one has changed")
	}
	if _, changed, restart := next.Revised(next); changed != nil || restart != nil {
		t.Errorf("of the same: %q, %q", changed, restart)
	}
}
