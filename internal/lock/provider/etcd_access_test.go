//go:build integration

package provider_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

func TestEtcdAsksForTheUser(t *testing.T) {
	t.Parallel()
	e := newEtcdBench(t, 1)
	admin := e.operator
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(admin.RoleAdd(t.Context(), "root"))
	must(admin.UserAdd(t.Context(), "root", "root"))
	must(admin.UserGrantRole(t.Context(), "root", "root"))
	must(admin.RoleAdd(t.Context(), "locks"))
	must(admin.RoleGrantPermission(t.Context(), "locks", "fence-proxy/", clientv3.GetPrefixRangeEnd("fence-proxy/"),
		clientv3.PermissionType(clientv3.PermReadWrite)))
	must(admin.UserAdd(t.Context(), "fence", "secret"))
	must(admin.UserGrantRole(t.Context(), "fence", "locks"))
	must(admin.UserAdd(t.Context(), "reader", "secret"))
	must(admin.AuthEnable(t.Context()))

	as := func(user, password string) provider.Locker {
		t.Helper()
		locker := openEtcd(t, e.servers.Addrs(), func(s *provider.EtcdSettings) { s.Username, s.Password = user, password })
		closed(t, locker)
		return locker
	}
	good := as("fence", "secret")
	hold := acquire(t, good, "session")
	if err := hold.Renew(t.Context()); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := good.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	if err := hold.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
	refuses(t, as("fence", "wrong"), "invalid user ID or password")
	refuses(t, as("reader", "secret"), "permission denied")
	refuses(t, as("", ""), "user name is empty")
}

func TestEtcdAsksForTheCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	server, proxy := ca.issue("server"), ca.issue("proxy")
	other := newAuthority(t, "other")
	servers := harness.StartEtcdTLS(t, 1, harness.EtcdTLS{CA: ca.file, Cert: server.cert, Key: server.key})

	with := func(ca string, own pair) provider.Locker {
		t.Helper()
		locker := openEtcd(t, []string{"https://" + servers.Addrs()[0]}, func(s *provider.EtcdSettings) {
			s.TLSCA, s.TLSCert, s.TLSKey = ca, own.cert, own.key
		})
		closed(t, locker)
		return locker
	}
	hold := acquire(t, with(ca.file, proxy), "session")
	if err := hold.Release(t.Context()); err != nil {
		t.Errorf("release: %v", err)
	}
	// A server that refuses hangs up; its reason may get lost.
	refuses(t, with(ca.file, pair{}), "code = Unavailable")
	refuses(t, with(ca.file, other.issue("stranger")), "code = Unavailable")
	refuses(t, with(other.file, proxy), "certificate signed by unknown authority")
	refuses(t, with("", proxy), "certificate signed by unknown authority")
}

func TestEtcdRefusesFilesThatAreNotThere(t *testing.T) {
	t.Parallel()
	for _, edit := range []func(*provider.EtcdSettings){
		func(s *provider.EtcdSettings) { s.TLSCA = "/nonexistent/ca.pem" },
		func(s *provider.EtcdSettings) { s.TLSCert, s.TLSKey = "/nonexistent/cert.pem", "/nonexistent/key.pem" },
	} {
		settings, _ := provider.Etcd.Settings().(*provider.EtcdSettings)
		settings.Endpoints = []string{"https://127.0.0.1:1"}
		edit(settings)
		if _, err := provider.Etcd.Open(settings, provider.Environment{Proxy: "proxy"}); err == nil || !strings.Contains(err.Error(), "/nonexistent/") {
			t.Errorf("it opens: %v", err)
		}
	}
}

// refuses fails the test unless neither Check nor Acquire succeeds, and both say why, once etcd has answered.
func refuses(t *testing.T, locker provider.Locker, why string) {
	t.Helper()
	ask := map[string]func() error{
		"Check": func() error { return locker.Check(t.Context()) },
		"Acquire": func() error {
			_, err := locker.Acquire(t.Context(), provider.Request{Session: "session"})
			return err
		},
	}
	for name, ask := range ask {
		harness.Eventually(t, 0, func() bool {
			err := ask()
			if err == nil {
				t.Fatalf("%s succeeds; want %q", name, why)
			}
			return strings.Contains(err.Error(), why)
		}, name+" says: "+why)
	}
}

// authority is a certificate authority of the test's own.
type authority struct {
	tb   testing.TB
	file string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// pair are the files of a certificate and its key.
type pair struct{ cert, key string }

func newAuthority(tb testing.TB, name string) *authority {
	tb.Helper()
	a := &authority{tb: tb}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		tb.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.file = a.sign(&template, &template, a.key)
	return a
}

// issue makes a certificate for 127.0.0.1.
func (a *authority) issue(name string) pair {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.tb.Fatal(err)
	}
	_, cert := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a.cert, key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.tb.Fatal(err)
	}
	return pair{cert: cert, key: a.write("PRIVATE KEY", der)}
}

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) (cert *x509.Certificate, file string) {
	a.tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key)
	if err != nil {
		a.tb.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		a.tb.Fatal(err)
	}
	return cert, a.write("CERTIFICATE", der)
}

func (a *authority) write(kind string, der []byte) (file string) {
	a.tb.Helper()
	file = filepath.Join(a.tb.TempDir(), "file.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.tb.Fatal(err)
	}
	return file
}
