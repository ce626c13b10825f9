package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"
)

// Client says how to connect to servers under TLS.
type Client struct {
	Files
	// ServerName is asked for and checked (SNI) instead of the host that is connected to; "" is that host.
	ServerName string
	// Insecure has any certificate of the server's believed.
	Insecure bool
	// MinVersion is the least version of TLS; 0 is 1.2.
	MinVersion uint16
}

// Dialer returns a function that connects under TLS. The files have to be good now; later ones that are not are logged.
func (c Client) Dialer(log *slog.Logger) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	keeper, err := keep(c.Files, func(err error) {
		log.Error("new certificates for the upstream are no good: those before stay", "error", err)
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		m := keeper.get()
		config := &tls.Config{
			RootCAs: m.pool, ServerName: c.ServerName, MinVersion: max(c.MinVersion, tls.VersionTLS12),
			InsecureSkipVerify: c.Insecure, //nolint:gosec // who asks for it knows
		}
		if config.ServerName == "" {
			if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
				config.ServerName = addr
			}
		}
		if m.pair != nil { // also where none of the server's authorities has signed it: the server says so then
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.pair, nil }
		}
		covered := tls.Client(nc, config)
		if err := covered.HandshakeContext(ctx); err != nil {
			_ = nc.Close()
			return nil, explained(addr, err)
		}
		return covered, nil
	}, nil
}

// explained says what to do about a handshake that failed.
func explained(addr string, err error) error {
	var header tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &header):
		return fmt.Errorf("%s does not speak TLS: write redis:// instead of rediss:// in upstream.url, or the port that does: %w", addr, err)
	case errors.As(err, &verification):
		return fmt.Errorf("%s has a certificate that is not believed: give its authority in upstream.tls.ca, or its name in upstream.tls.server_name: %w", addr, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%s does not answer to TLS: if it does not speak it, write redis:// instead of rediss:// in upstream.url: %w", addr, err)
	}
	return fmt.Errorf("TLS with %s: %w", addr, err)
}
