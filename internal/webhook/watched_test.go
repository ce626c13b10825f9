package webhook

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFilesAreReadAgainWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
		write := func(path, text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		parse := func(texts [][]byte) (string, error) {
			if text := string(bytes.Join(texts, []byte("+"))); !strings.Contains(text, "bad") {
				return text, nil
			}
			return "", errors.New("bad")
		}
		var log bytes.Buffer
		write(one, "1")
		if _, err := watch(slog.Default(), "test", parse, one, two); err == nil {
			t.Error("a file that is not there at the start is no error")
		}
		write(two, "bad")
		if _, err := watch(slog.Default(), "test", parse, one, two); err == nil {
			t.Error("a file that can't be used at the start is no error")
		}
		write(two, "2")
		w, err := watch(slog.New(slog.NewTextHandler(&log, nil)), "test", parse, one, two)
		if err != nil {
			t.Fatal(err)
		}
		says := func(want string) {
			t.Helper()
			if got := w.get(); got != want {
				t.Errorf("the files say %q, not %q", got, want)
			}
		}
		later := func() { time.Sleep(lookEvery) }
		says("1+2")
		write(one, "3")
		says("1+2") // it was looked at just now
		later()
		says("3+2")
		write(two, "bad")
		later()
		says("3+2")
		later()
		says("3+2")
		if n := strings.Count(log.String(), "can't be used"); n != 1 {
			t.Errorf("a bad file is logged %d times", n)
		}
		if err := os.Remove(one); err != nil {
			t.Fatal(err)
		}
		later()
		says("3+2")
		write(one, "4")
		write(two, "5")
		later()
		says("4+5")
	})
}
