package secure

import (
	"crypto/tls"
	"log/slog"
	"net"
)

// Server says how clients connect under TLS.
type Server struct {
	// Files are the server's certificate; clients have to have one that the CA has signed, if there is one.
	Files
	// MinVersion is the least version of TLS; 0 is 1.2.
	MinVersion uint16
}

// Listener returns a listener whose connections are under TLS. Their handshake is theirs: Accept does not wait for it.
func (s Server) Listener(l net.Listener, log *slog.Logger) (net.Listener, error) {
	keeper, err := keep(s.Files, func(err error) {
		log.Error("new certificates for clients are no good: those before stay", "error", err)
	})
	if err != nil {
		return nil, err
	}
	// No tickets: a session that is resumed would not be checked against the CA that counts now.
	config := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m := keeper.get()
		c := &tls.Config{Certificates: []tls.Certificate{*m.pair}, MinVersion: max(s.MinVersion, tls.VersionTLS12), SessionTicketsDisabled: true}
		if m.pool != nil {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, m.pool
		}
		return c, nil
	}}
	return tls.NewListener(l, config), nil
}
