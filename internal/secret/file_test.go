package secret

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAFileHasOnePasswordALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"a", []string{"a"}}, {"a\n", []string{"a"}}, {"a\r\n", []string{"a"}}, {" a b \n\nsecond", []string{" a b ", "second"}},
	} {
		write(t, path, tc.text)
		if got, err := Read(path); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%q: %q, %v; want %q", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "\n", "\r\n\n"} {
		write(t, path, text)
		if got, err := Read(path); !errors.Is(err, ErrEmpty) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestAFileThatGoesBadLeavesWhatCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	var told []error
	f := NewFile(path, func(err error) { told = append(told, err) })
	if got := f.Passwords(); got != nil {
		t.Errorf("of no file: %q", got)
	}
	write(t, path, "first")
	is := func(want string) {
		t.Helper()
		for range 2 {
			if got := f.Passwords(); !slices.Equal(got, []string{want}) {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	is("first")
	write(t, path, "second")
	is("second")
	write(t, path, "\n")
	is("second")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	is("second")
	write(t, path, "third")
	is("third")
	if len(told) != 3 || !errors.Is(told[0], fs.ErrNotExist) || !errors.Is(told[1], ErrEmpty) || !errors.Is(told[2], fs.ErrNotExist) {
		t.Errorf("%q", told)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
