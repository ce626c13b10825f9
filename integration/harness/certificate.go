package harness

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for tests.
type Authority struct {
	File string // its own certificate, in PEM
	Pool *x509.CertPool

	tb     testing.TB
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// Certificate is a signed certificate and its key, in PEM files.
type Certificate struct {
	Cert, Key string
	Pair      tls.Certificate
	Serial    int64
}

// NewAuthority makes an authority.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir(), Pool: x509.NewCertPool()}
	a.File = filepath.Join(a.dir, "ca.pem")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.serial = 1
	a.key = a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		tb.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	a.write(a.File, "CERTIFICATE", der)
	return a
}

// Sign makes a certificate for a name and 127.0.0.1.
func (a *Authority) Sign(name string) *Certificate {
	a.tb.Helper()
	a.serial++
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	c := &Certificate{Serial: a.serial}
	c.Cert, c.Key = filepath.Join(a.dir, fmt.Sprintf("%d.pem", a.serial)), filepath.Join(a.dir, fmt.Sprintf("%d.key", a.serial))
	a.write(c.Cert, "CERTIFICATE", der)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.write(c.Key, "PRIVATE KEY", private)
	if c.Pair, err = tls.LoadX509KeyPair(c.Cert, c.Key); err != nil {
		a.tb.Fatal(err)
	}
	return c
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	return key
}

func (a *Authority) write(path, kind string, der []byte) {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.tb.Fatal(err)
	}
}

// Client is the configuration of a client that believes the authority; cert may be nil.
func (a *Authority) Client(cert *Certificate) *tls.Config {
	config := &tls.Config{RootCAs: a.Pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	if cert != nil {
		config.Certificates = []tls.Certificate{cert.Pair}
	}
	return config
}

// DialTLS is Dial under TLS.
func DialTLS(tb testing.TB, addr string, config *tls.Config) *RawConn {
	tb.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return &RawConn{Conn: conn, in: bufio.NewReader(conn), tb: tb}
}
