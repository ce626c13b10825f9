package provider

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// useFiles adds to a TLS configuration what the settings tls_ca, tls_cert and tls_key name: files in PEM, with whom to believe and who the proxy
// is; "" is none. Certificate and key are read again for each connection.
func useFiles(config *tls.Config, ca, cert, key string) error {
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("tls_ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls_ca: %s has no certificate in PEM", ca)
		}
	}
	if cert == "" {
		return nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls_cert and tls_key: %w", err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return err
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return nil
}
