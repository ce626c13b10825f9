package account

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// list makes a list; trouble with its files ends the test.
func list(t *testing.T, users ...*User) *List {
	t.Helper()
	for _, u := range users {
		if found := u.Check(); len(found) > 0 {
			t.Fatal(found)
		}
	}
	l, err := New(users, func(name string, err error) { t.Errorf("%s: %v", name, err) })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAUserLogsInWithEachOfItsPasswords(t *testing.T) {
	t.Setenv("WORKER_PASSWORD", "from a variable")
	path := filepath.Join(t.TempDir(), "passwords")
	write(t, path, "from a file\n#ecd71870d1963316a97e3ac3408c9835ad8cf0f3c1bc703527c30265534f75ae\n") // test123
	l := list(t,
		&User{Name: "worker", Passwords: []string{"plain", "#9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08", "#short"}, PasswordEnv: "WORKER_PASSWORD"}, // test
		&User{Name: "reader", PasswordFile: path, Admin: true})
	for _, tc := range []struct {
		name, password string
		admitted       bool
	}{
		{"worker", "plain", true},
		{"worker", "test", true},
		{"worker", "#short", true},
		{"worker", "from a variable", true},
		{"reader", "from a file", true},
		{"reader", "test123", true},
		{"worker", "from a file", false},
		{"reader", "plain", false},
		{"worker", "", false},
		{"", "plain", false},
		{"default", "plain", false},
		{"worker", "plain ", false},
		{"Worker", "plain", false},
		{"worker", "#9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", false},
	} {
		a := l.Check([]byte(tc.name), []byte(tc.password))
		if (a != nil) != tc.admitted || a != nil && (a.Name != tc.name || a.Admin != (tc.name == "reader")) {
			t.Errorf("%s with %q: %+v", tc.name, tc.password, a)
		}
	}
	if l.Find("worker") == nil || l.Find("nobody") != nil {
		t.Error("it is not known who is in the list")
	}
}

func TestAnotherFileCountsWithinASecond(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passwords")
	write(t, path, "first")
	synctest.Test(t, func(t *testing.T) {
		told := 0
		l, err := New([]*User{{Name: "u", PasswordFile: path}}, func(string, error) { told++ })
		if err != nil {
			t.Fatal(err)
		}
		counts := func(password string, want bool) {
			t.Helper()
			if got := l.Check([]byte("u"), []byte(password)) != nil; got != want {
				t.Errorf("%s: %v", password, got)
			}
		}
		counts("first", true)
		write(t, path, "second")
		counts("first", true)
		time.Sleep(lookEvery)
		counts("first", false)
		counts("second", true)
		for _, bad := range []string{"", "\n", "#" + strings.Repeat("x", 64)} { // of which none could be a mistake that locks everybody out
			write(t, path, bad)
			time.Sleep(lookEvery)
			counts("second", true)
		}
		if told == 0 {
			t.Error("nobody is told")
		}
	})
}

func TestAUserHasNoPasswordInItsText(t *testing.T) {
	u := &User{Name: "worker", Passwords: []string{"hunter2"}}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "user", u)
	if all := fmt.Sprintf("%v %+v %#v %s", u, u, u, u) + log.String(); strings.Contains(all, "hunter2") || !strings.Contains(all, "worker") {
		t.Error(all)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
