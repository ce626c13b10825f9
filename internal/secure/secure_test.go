package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

var silent = slog.New(slog.DiscardHandler)

// asked starts a server under TLS that tells what name it was asked for.
func asked(t *testing.T, own *harness.Certificate, edit func(*tls.Config)) (addr string, names chan string) {
	t.Helper()
	names = make(chan string, 1)
	config := &tls.Config{Certificates: []tls.Certificate{own.Pair}, MinVersion: tls.VersionTLS12}
	edit(config)
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			if covered := nc.(*tls.Conn); covered.Handshake() == nil {
				names <- covered.ConnectionState().ServerName
			}
			_ = nc.Close()
		}
	}()
	return l.Addr().String(), names
}

// Case 72: a server that serves several names is asked for the right one.
func TestTheNameThatTheServerIsAskedFor(t *testing.T) {
	ca := harness.NewAuthority(t)
	addr, names := asked(t, ca.Sign("redis.example"), func(*tls.Config) {})
	_, port, _ := net.SplitHostPort(addr)
	for name, tc := range map[string]struct{ host, serverName, want, fails string }{
		"a host's":                {host: "localhost", fails: "upstream.tls.server_name"}, // the certificate has not got that name
		"an address has none":     {host: "127.0.0.1"},
		"the one that is set":     {host: "127.0.0.1", serverName: "redis.example", want: "redis.example"},
		"one that it has not got": {host: "127.0.0.1", serverName: "other.example", fails: "upstream.tls.server_name"},
	} {
		dial, err := Client{Files: Files{CA: ca.File}, ServerName: tc.serverName}.Dialer(silent)
		if err != nil {
			t.Fatal(err)
		}
		nc, err := dial(t.Context(), "tcp", net.JoinHostPort(tc.host, port))
		switch {
		case tc.fails != "":
			if err == nil || !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := <-names; got != tc.want {
			t.Errorf("%s: it is asked for %q, want %q", name, got, tc.want)
		}
		_ = nc.Close()
	}
}

func TestTheLeastVersion(t *testing.T) {
	ca := harness.NewAuthority(t)
	addr, names := asked(t, ca.Sign("redis"), func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	for _, least := range []uint16{0, tls.VersionTLS12, tls.VersionTLS13} {
		dial, err := Client{Files: Files{CA: ca.File}, MinVersion: least}.Dialer(silent)
		if err != nil {
			t.Fatal(err)
		}
		nc, err := dial(t.Context(), "tcp", addr)
		if (err != nil) != (least == tls.VersionTLS13) {
			t.Errorf("at least %x, from a server with 1.2: %v", least, err)
		}
		if err == nil {
			<-names
			_ = nc.Close()
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	ca := harness.NewAuthority(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() {
		for {
			nc, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(nc, "-ERR what is that\r\n")
			_ = nc.Close()
		}
	}()
	strange, _ := asked(t, harness.NewAuthority(t).Sign("redis"), func(*tls.Config) {})
	for addr, want := range map[string]string{plain.Addr().String(): "redis:// instead of rediss://", strange: "upstream.tls.ca"} {
		dial, err := Client{Files: Files{CA: ca.File}}.Dialer(silent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dial(t.Context(), "tcp", addr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for name, f := range map[string]Files{
		"no key": {Cert: "x"}, "no file": {CA: filepath.Join(t.TempDir(), "none")}, "no certificate": {CA: ca.Sign("x").Key},
		"another's key": {Cert: ca.Sign("a").Cert, Key: ca.Sign("b").Key},
	} {
		if f.Check() == nil {
			t.Errorf("%s passes", name)
		}
	}
}

// Files are replaced one after the other: in between the certificate and the key don't belong together.
func TestFilesThatAreReplacedCountWhenTheyBelongTogether(t *testing.T) {
	ca := harness.NewAuthority(t)
	dir := t.TempDir()
	f := Files{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	copied := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second := ca.Sign("first"), ca.Sign("second")
	copied(first.Cert, f.Cert)
	copied(first.Key, f.Key)
	var log bytes.Buffer
	k, err := keep(f, func(err error) { log.WriteString(err.Error() + "\n") })
	if err != nil {
		t.Fatal(err)
	}
	is := func(when string, want *harness.Certificate) {
		t.Helper()
		k.looked = time.Time{} // it looks again
		if got := k.get().pair.Certificate[0]; !bytes.Equal(got, want.Pair.Certificate[0]) {
			t.Errorf("%s: another certificate counts", when)
		}
	}
	is("at first", first)
	copied(second.Cert, f.Cert)
	is("with another's key", first)
	if log.Len() > 0 {
		t.Errorf("half a change is told as trouble: %s", &log)
	}
	copied(second.Key, f.Key)
	is("with its own key", second)
	if err := os.Remove(f.Key); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		is("without a key", second)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("it is told %d times that a file is gone: %s", n, &log)
	}
	copied(first.Cert, f.Cert)
	copied(first.Key, f.Key)
	is("mended", first)
}

func TestClientsNeedACertificateWhereAnAuthorityIsNamed(t *testing.T) {
	ca := harness.NewAuthority(t)
	own, client := ca.Sign("proxy"), ca.Sign("client")
	strange := harness.NewAuthority(t).Sign("client")
	for name, tc := range map[string]struct {
		authority string
		with      *harness.Certificate
		good      bool
	}{
		"none is asked for": {good: true},
		"without one":       {authority: ca.File},
		"with one":          {authority: ca.File, with: client, good: true},
		"with another's":    {authority: ca.File, with: strange},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		secured, err := Server{Files: Files{Cert: own.Cert, Key: own.Key, CA: tc.authority}}.Listener(l, silent)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() {
			nc, err := secured.Accept()
			if err == nil {
				_, err = io.WriteString(nc, "x") // behind the handshake
				_ = nc.Close()
			}
			served <- err
		}()
		nc, err := (&tls.Dialer{Config: ca.Client(tc.with)}).DialContext(context.Background(), "tcp", l.Addr().String())
		if err == nil {
			_, _ = nc.Read(make([]byte, 1))
			_ = nc.Close()
		}
		if err := <-served; (err == nil) != tc.good {
			t.Errorf("%s: %v", name, err)
		}
		_ = secured.Close()
	}
}
