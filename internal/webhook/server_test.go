package webhook

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// certify writes a new certificate and its key, as a kubelet does: the files' directory is another one then.
func certify(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"webhook"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	next, err := os.MkdirTemp(dir, "..") //nolint:usetesting // it is in the volume's directory, and hidden
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{"tls.crt": public, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(filepath.Join(next, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "..data")
	if err := os.Symlink(filepath.Base(next), link+"_tmp"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+"_tmp", link); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return pool
}

// started is a server that serves until the test ends.
type started struct {
	*Server
	options Options
	stop    context.CancelFunc
	done    chan error
}

func start(t *testing.T, dir string, edits ...func(*Options)) *started {
	t.Helper()
	data := filepath.Join(dir, "..data")
	o := Options{
		Listen: "127.0.0.1:0", Certificate: filepath.Join(data, "tls.crt"), Key: filepath.Join(data, "tls.key"),
		Template: filepath.Join(dir, "injector.yaml"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, edit := range edits {
		edit(&o)
	}
	text, err := os.ReadFile("testdata/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Template, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	running := &started{s, o, stop, make(chan error, 1)}
	go func() { running.done <- s.Serve(ctx) }()
	return running
}

// end stops the server and waits for it.
func (s *started) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
}

// ask sends a request over a connection of its own.
func (s *started) ask(t *testing.T, pool *x509.CertPool, method, path string, body []byte) (int, []byte, error) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "webhook", MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.Addr().String()+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

func TestReviewsAreAnsweredOverTLSAndANewCertificateIsTakenUp(t *testing.T) {
	dir := t.TempDir()
	first := certify(t, dir)
	s := start(t, dir)
	defer s.end(t)
	body, err := json.Marshal(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": map[string]any{
		"uid": "1", "operation": "CREATE", "kind": map[string]any{"version": "v1", "kind": "Pod"},
		"object": parsePod(t, asking("", agentSpec)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	status, answer, err := s.ask(t, first, http.MethodPost, "/inject", body)
	if err != nil || status != http.StatusOK || !bytes.Contains(answer, []byte(`"patchType":"JSONPatch"`)) {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, answer, err := s.ask(t, first, http.MethodGet, path, nil); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %s %v", path, status, answer, err)
		}
	}
	second := certify(t, dir)
	eventually(t, "the new certificate serves", func() bool {
		_, _, err := s.ask(t, second, http.MethodGet, "/healthz", nil)
		return err == nil
	})
	if _, _, err := s.ask(t, first, http.MethodGet, "/healthz", nil); err == nil {
		t.Error("the old certificate still serves")
	}
}

func TestItGoesOnServingWhileItDrains(t *testing.T) {
	dir := t.TempDir()
	pool := certify(t, dir)
	s := start(t, dir, func(o *Options) { o.Drain = time.Hour })
	s.stop()
	eventually(t, "it is not ready any more", func() bool {
		status, _, err := s.ask(t, pool, http.MethodGet, "/readyz", nil)
		return err == nil && status == http.StatusServiceUnavailable
	})
	if status, _, err := s.ask(t, pool, http.MethodGet, "/healthz", nil); err != nil || status != http.StatusOK {
		t.Errorf("healthz: %d %v", status, err)
	}
	_ = s.http.Close() // nobody waits for an hour
	if err := <-s.done; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

func TestWhatItNeedsIsMissedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	certify(t, dir)
	s := start(t, dir)
	defer s.end(t)
	for name, edit := range map[string]func(*Options){
		"certificate": func(o *Options) { o.Certificate = o.Template },
		"key":         func(o *Options) { o.Key = filepath.Join(dir, "missing") },
		"template":    func(o *Options) { o.Template = o.Key },
		"address":     func(o *Options) { o.Listen = s.Addr().String() },
		"kubeconfig":  func(o *Options) { o.Events, o.Kubeconfig = true, filepath.Join(dir, "missing") },
	} {
		o := s.options
		edit(&o)
		if _, err := Start(t.Context(), o); err == nil {
			t.Errorf("%s: it starts", name)
		}
	}
}
