//go:build integration

package provider_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fence-proxy/fence-proxy/integration/harness"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
)

// The connection breaks when the server answers that it has created the node: the node is in line, and must be known.
func TestANodeWhoseCreationWasNotAnsweredIsOnesOwn(t *testing.T) {
	t.Parallel()
	server := harness.StartZooKeeper(t)
	z := newZooKeeperBench(t, harness.ZooKeeperEnsemble{server})
	relay := harness.StartRelay(t, server.Addr)
	settings := zookeeperSettings(t)
	settings.Servers, settings.SessionTimeout = []string{relay.Addr}, time.Minute // nothing but the answer is on its way
	l := openKind(t, provider.ZooKeeper, settings)
	t.Cleanup(func() { closeInTime(t, l) })
	takeTurn(t, l, "s").release()

	for range 3 {
		broken := relay.CutAfterBytes(harness.ToClient, 0)
		h := takeTurn(t, l, "s")
		<-broken
		nodes := z.line(t, "s")
		if len(nodes) != 1 {
			t.Fatalf("the nodes in line are %v, one owner's", nodes)
		}
		_, stat, err := z.operator.Get(nodes[0])
		if err != nil || uint64(stat.Czxid) != h.Grant() {
			t.Fatalf("the grant is %d, the node's transaction %d (%v)", h.Grant(), stat.Czxid, err)
		}
		h.release()
	}

	// Who gives up meanwhile leaves no ghost.
	holder := takeTurn(t, l, "s")
	broken := relay.CutAfterBytes(harness.ToClient, 0)
	ctx, cancel := context.WithCancel(context.Background())
	turn := startTurn(ctx, l, "s")
	<-broken
	cancel()
	if err := turn.fails(t); !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled Acquire returns %v", err)
	}
	harness.Eventually(t, 0, func() bool { return len(z.line(t, "s")) == 1 }, "only the holder is in line")
	holder.release()
}

// Case 37.
func TestTheNodeOfAnEndedSessionIsNobodysOwn(t *testing.T) {
	t.Parallel()
	server := harness.StartZooKeeper(t)
	relay := harness.StartRelay(t, server.Addr, harness.WithCapture())
	one, two := openZooKeeper(t, relay.Addr), openZooKeeper(t, server.Addr)
	t.Cleanup(func() { closeInTime(t, one); closeInTime(t, two) })

	held := takeTurn(t, one, "s")
	behind := startTurn(t.Context(), one, "s")
	other := startTurn(t.Context(), two, "s")
	relay.Cut() // or its client might take the session back before it ends
	endZooKeeperSession(t, server.Addr, relay)
	relay.Restore()

	harness.Eventually(t, 0, held.lost, "the hold of a session that has ended is lost")
	if err := held.Renew(t.Context()); !errors.Is(err, provider.ErrLost) {
		t.Fatalf("it is renewed: %v", err)
	}
	// Both are served, in whatever order: the waiter of the ended session is in line again.
	grants := []uint64{held.Grant()}
	for range 2 {
		select {
		case <-behind.done:
			grants = append(grants, behind.granted(t).Grant())
			behind.hold.release()
			behind.done = nil
		case <-other.done:
			grants = append(grants, other.granted(t).Grant())
			other.hold.release()
			other.done = nil
		case <-time.After(30 * time.Second):
			t.Fatal("a waiter is not served")
		}
	}
	if grants[0] >= grants[1] || grants[1] >= grants[2] {
		t.Fatalf("the grants are %v", grants)
	}
	held.release()
}

// endZooKeeperSession ends the session of the relay's first connection, as if its client had closed it: the server's greeting has
// the session's id and password in it.
func endZooKeeperSession(t *testing.T, server string, relay *harness.Relay) {
	t.Helper()
	greeting := relay.Connections()[0].Bytes[harness.ToClient]
	if len(greeting) < 40 {
		t.Fatalf("a greeting of %d bytes", len(greeting))
	}
	timeout, session, password := greeting[8:12], greeting[12:20], greeting[20:40]
	conn, err := net.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const closeSession = -11
	var hello, farewell bytes.Buffer
	hello.Write(make([]byte, 4+8)) // version, transaction last seen
	hello.Write(timeout)
	hello.Write(session)
	hello.Write(password)
	_ = binary.Write(&farewell, binary.BigEndian, []int32{1, closeSession})
	for _, request := range [][]byte{hello.Bytes(), farewell.Bytes()} {
		_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(request))), request...))
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Fatalf("the server keeps the connection: %v", err)
	}
}

func TestAnEnsembleThatLosesItsLeaderKeepsHoldsAndTheLine(t *testing.T) {
	t.Parallel()
	ensemble := harness.StartZooKeeperEnsemble(t, 3)
	settings := zookeeperSettings(t)
	settings.Servers, settings.SessionTimeout = ensemble.Addrs(), time.Minute
	one, two := openKind(t, provider.ZooKeeper, settings), openKind(t, provider.ZooKeeper, settings)
	t.Cleanup(func() { closeInTime(t, one); closeInTime(t, two) })

	held := takeTurn(t, one, "s")
	waiter := startTurn(t.Context(), two, "s")
	ensemble.Leader().Kill()
	harness.Eventually(t, 0, func() bool { return held.Renew(t.Context()) == nil }, "the hold is renewed with the next leader")
	if held.lost() || waiter.over() {
		t.Fatal("the hold did not survive its leader")
	}
	held.release()
	next := waiter.granted(t)
	if next.Grant() <= held.Grant() {
		t.Fatalf("grant %d comes after grant %d", next.Grant(), held.Grant())
	}
	next.release()
	again := takeTurn(t, one, "s")
	if again.Grant()>>32 <= held.Grant()>>32 || again.Grant() <= next.Grant() {
		t.Fatalf("grant %#x of the next leader comes after %#x", again.Grant(), held.Grant())
	}
	again.release()
}

func TestZooKeeperNodesAreForTheirUserOnly(t *testing.T) {
	t.Parallel()
	server := harness.StartZooKeeper(t)
	open := func(auth string) provider.Locker {
		settings := zookeeperSettings(t)
		settings.Servers, settings.Auth, settings.Path = []string{server.Addr}, auth, "/locks/of/ours"
		l := openKind(t, provider.ZooKeeper, settings)
		t.Cleanup(func() { closeInTime(t, l) })
		return l
	}
	ours, stranger := open("us:secret"), open("them:guess")
	if err := ours.Check(t.Context()); err != nil {
		t.Fatalf("Check: %v", err)
	}
	held := takeTurn(t, ours, "s")
	if err := stranger.Check(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("Check of a stranger: %v", err)
	}
	if err := startTurn(t.Context(), stranger, "s").fails(t); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("Acquire of a stranger: %v", err)
	}
	held.release()
}

func TestZooKeeperForgetsASessionOutOfUse(t *testing.T) {
	t.Parallel()
	server := harness.StartZooKeeper(t, "znode.container.checkIntervalMs=100")
	z := newZooKeeperBench(t, harness.ZooKeeperEnsemble{server})
	l := openZooKeeper(t, server.Addr)
	t.Cleanup(func() { closeInTime(t, l) })
	first := takeTurn(t, l, "s")
	first.release()
	harness.Eventually(t, 0, func() bool {
		there, _, err := z.operator.Exists("/fence-proxy/s")
		return err == nil && !there
	}, "the session's node is gone")
	second := takeTurn(t, l, "s")
	if second.Grant() <= first.Grant() {
		t.Fatalf("grant %d comes after grant %d", second.Grant(), first.Grant())
	}
	second.release()
}

func TestZooKeeperOverTLS(t *testing.T) {
	t.Parallel()
	server := harness.StartZooKeeper(t)
	addr, ca := wrapInTLS(t, server.Addr)
	open := func(ca string) provider.Locker {
		settings := zookeeperSettings(t)
		settings.Servers, settings.TLS, settings.TLSCA = []string{addr}, true, ca
		l := openKind(t, provider.ZooKeeper, settings)
		t.Cleanup(func() { closeInTime(t, l) })
		return l
	}
	takeTurn(t, open(ca), "s").release()
	trusting := open("")
	harness.Eventually(t, 0, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := trusting.Check(ctx)
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("with a certificate that nobody knows: %v", err)
		}
		return strings.Contains(err.Error(), "certificate")
	}, "Check says that the certificate is known to nobody")
}

// wrapInTLS serves a server's port with TLS, and returns the new address and the file of the certificate.
func wrapInTLS(t *testing.T, server string) (addr, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); tasks.Wait() })
	tasks.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() { join(client, server) })
		}
	})
	return listener.Addr().String(), ca
}

// join passes everything between a connection and a server.
func join(client net.Conn, server string) {
	defer func() { _ = client.Close() }()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(conn, client)
		_ = conn.Close()
	})
	_, _ = io.Copy(client, conn)
	_ = client.Close()
	up.Wait()
}
