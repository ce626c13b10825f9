package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"time"
)

// soon is how long before its end a certificate is told of.
const soon = 30 * 24 * time.Hour

// certificates looks at when those of a connection with TLS end.
func certificates(ctx context.Context, e *exam) {
	o := e.Redis.Options()
	if o.TLSConfig == nil {
		return
	}
	nc, err := (&tls.Dialer{Config: o.TLSConfig}).DialContext(ctx, o.Network, o.Addr)
	if err != nil {
		e.fail("see upstream.tls, and the certificates of Redis", "TLS: %s", reason(err))
		return
	}
	defer nc.Close()
	conn, ok := nc.(*tls.Conn)
	if !ok {
		return
	}
	for i, c := range conn.ConnectionState().PeerCertificates {
		who := "the certificate of Redis"
		if i > 0 {
			who = "a certificate above that of Redis"
		}
		e.ends(who, c)
	}
	for _, own := range o.TLSConfig.Certificates {
		if c, err := x509.ParseCertificate(own.Certificate[0]); err == nil {
			e.ends("the proxy's own certificate", c)
		}
	}
}

func (e *exam) ends(who string, c *x509.Certificate) {
	day := c.NotAfter.UTC().Format(time.DateOnly)
	switch left := time.Until(c.NotAfter); {
	case left <= 0:
		e.fail("renew it", "%s (%s) has ended on %s", who, c.Subject.CommonName, day)
	case left < soon:
		e.warn("renew it", "%s (%s) ends on %s", who, c.Subject.CommonName, day)
	default:
		e.ok("%s (%s) ends on %s", who, c.Subject.CommonName, day)
	}
}
