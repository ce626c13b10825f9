//go:build integration

package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fence-proxy/fence-proxy/integration/harness"
)

// tlsWorld is a Redis that asks for certificates, behind a proxy that does.
type tlsWorld struct {
	*testing.T
	ca     *harness.Authority
	client *harness.Certificate
	redis  *harness.Redis
	proxy  *harness.Proxy
	addr   string         // of the proxy under TLS
	secure *harness.Relay // the way to the Redis under TLS
	dir    string         // the proxy's files, as Kubernetes has them: links to ..data, which is a link
}

func newTLSWorld(t *testing.T) *tlsWorld {
	t.Helper()
	w := &tlsWorld{T: t, ca: harness.NewAuthority(t), dir: t.TempDir()}
	w.client = w.ca.Sign("client")
	w.redis = harness.StartRedis(t, harness.WithTLS(w.ca))
	w.secure = harness.StartRelay(t, w.redis.Secure)
	w.swap(w.ca.Sign("proxy"))
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.addr = fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	w.proxy = harness.StartProxy(t, harness.ProxyOptions{ConfigYAML: fmt.Sprintf(`
upstream:
  url: "rediss://%s"
  tls: {ca: %q, cert: %q, key: %q}
tls: {listen: %q, cert: %q, key: %q, client_ca: %q}
`, w.secure.Addr, w.ca.File, w.client.Cert, w.client.Key, w.addr, filepath.Join(w.dir, "tls.crt"), filepath.Join(w.dir, "tls.key"), w.ca.File) + guarding()})
	return w
}

// swap puts a certificate in the place of the proxy's, as Kubernetes does.
func (w *tlsWorld) swap(c *harness.Certificate) {
	w.Helper()
	next, err := os.MkdirTemp(w.dir, "..")
	if err != nil {
		w.Fatal(err)
	}
	for name, from := range map[string]string{"tls.crt": c.Cert, "tls.key": c.Key} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(next, name), text, 0o600)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	link := filepath.Join(w.dir, "..data_tmp")
	if err := os.Symlink(filepath.Base(next), link); err != nil {
		w.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(w.dir, "..data")); err != nil {
		w.Fatal(err)
	}
}

func (w *tlsWorld) meet(name string) (*party, *harness.RawConn) {
	conn := harness.DialTLS(w.T, w.addr, w.ca.Client(w.client))
	return &party{
		t: w.T, name: name,
		write: func(args ...string) { conn.Send(harness.Encode(args...)) },
		read: func() (any, error) {
			raw, err := conn.Read()
			if err != nil {
				return nil, err
			}
			return harness.Decode(raw)
		},
	}, conn
}

func TestAGuardedCycleUnderTLSOnBothSides(t *testing.T) {
	t.Parallel()
	w := newTLSWorld(t)
	a, aConn := w.meet("A")
	b, bConn := w.meet("B")
	plain, _ := connect(t, "without TLS", w.proxy.Addr)
	a.does(nil, "GET", "ctx:s")
	b.sends("GET", "ctx:s")
	line := lineFor(t, w.redis, "ctx:s")
	line.hasWaiters(1)
	_ = bConn.Close() // it is seen to go
	line.hasWaiters(0)
	a.does("OK", "SET", "ctx:s", "v")
	plain.does("v", "GET", "ctx:s")

	large := strings.Repeat("x", 32<<20)
	a.does("OK", "SET", "free", large)
	if got := aConn.Do("GET", "free"); len(got) < len(large) {
		t.Errorf("a large value came back as %d bytes", len(got))
	}
	const pipelined = 20000
	aConn.Send(strings.Repeat(harness.Encode("INCR", "n"), pipelined))
	for i := range pipelined {
		a.hears(int64(i + 1))
	}
	aConn.Send(harness.Encode("INCR", "n"))
	if err := aConn.Conn.(*tls.Conn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	a.hears(int64(pipelined + 1))
	aConn.ExpectClosed()
	if w.secure.RoundTrips() == 0 {
		t.Error("the proxy's connections are not under TLS")
	}
}

// Whoever connects while the certificate is replaced is served, with the old one or the new one.
func TestCertificatesAreReplacedWithoutALostConnection(t *testing.T) {
	t.Parallel()
	w := newTLSWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	for range 2 {
		load.Go(func() {
			for ctx.Err() == nil {
				c := redis.NewClient(&redis.Options{Addr: w.addr, TLSConfig: w.ca.Client(w.client), MaxRetries: -1, DialerRetries: 1})
				if err := c.Incr(context.Background(), "n").Err(); err != nil {
					t.Errorf("a connection failed: %v", err)
				}
				_ = c.Close()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	kept, _ := w.meet("kept")
	for range 2 {
		next := w.ca.Sign("proxy")
		w.swap(next)
		w.shows(next)
	}
	last := w.ca.Sign("proxy")
	w.swap(last)
	w.shows(last)
	mixed := *w.ca.Sign("proxy")
	mixed.Key = last.Key // another certificate's
	w.swap(&mixed)
	w.proxy.WaitLog(t, "new certificates for clients are no good")
	w.shows(last)
	kept.does("PONG", "PING")
	if strings.Contains(w.proxy.Logs(), "PRIVATE KEY") {
		t.Error("a key is in the log")
	}
}

// shows waits until those who connect see a certificate.
func (w *tlsWorld) shows(c *harness.Certificate) {
	w.Helper()
	harness.Eventually(w.T, 0, func() bool {
		conn := harness.DialTLS(w.T, w.addr, w.ca.Client(w.client))
		defer conn.Close()
		return conn.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64() == c.Serial
	}, "the certificate is shown")
}

// Case 72.
func TestTheWrongSideOfTLSIsSaid(t *testing.T) {
	t.Parallel()
	w := newTLSWorld(t)
	t.Run("a client without TLS", func(t *testing.T) {
		for range 3 {
			conn := harness.Dial(t, w.addr)
			if reply := conn.Do("PING"); !bytes.Contains(reply, []byte("connect with rediss://")) {
				t.Errorf("%q", reply)
			}
			conn.ExpectClosed()
		}
		w.proxy.WaitLog(t, "it does not speak TLS")
		if n := strings.Count(w.proxy.Logs(), "it does not speak TLS"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
	t.Run("a client without a certificate", func(t *testing.T) {
		conn, err := tls.Dial("tcp", w.addr, w.ca.Client(nil))
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // the refusal comes behind the handshake
			_ = conn.Close()
		}
		if err == nil {
			t.Error("is served")
		}
	})
	t.Run("a client with TLS where there is none", func(t *testing.T) {
		other := harness.StartProxy(t, harness.ProxyOptions{Redis: w.redis, ConfigYAML: "rules: []\n"})
		if _, err := tls.Dial("tcp", other.Addr, w.ca.Client(w.client)); err == nil || !strings.Contains(err.Error(), "handshake failure") {
			t.Errorf("%v", err)
		}
		other.WaitLog(t, "it speaks TLS, and this port does not")
	})
	for name, c := range map[string]struct{ url, tls, want string }{
		"a Redis without TLS":          {"rediss://" + w.redis.Addr, "", "write redis://"},
		"a Redis with TLS":             {"redis://" + w.redis.Secure, "", "write rediss://"},
		"an authority not believed":    {"rediss://" + w.redis.Secure, "", "upstream.tls.ca"},
		"another name":                 {"rediss://" + w.redis.Secure, fmt.Sprintf("{ca: %q, server_name: other}", w.ca.File), "upstream.tls.server_name"},
		"a Redis that asks who we are": {"rediss://" + w.redis.Secure, fmt.Sprintf("{ca: %q}", w.ca.File), "upstream.tls.cert"},
	} {
		t.Run(name, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "config.yaml")
			text := fmt.Sprintf("listen: \"127.0.0.1:0\"\nadmin: \"\"\nupstream:\n  url: %q\n  dial_timeout: 3s\n  start_timeout: 0s\n", c.url)
			if c.tls != "" {
				text += "  tls: " + c.tls + "\n"
			}
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, output := harness.RunProxy(t, "--config", config); code == 0 || !strings.Contains(output, c.want) {
				t.Errorf("exit code %d, %s", code, output)
			}
		})
	}
}
