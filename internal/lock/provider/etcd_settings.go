package provider

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// EtcdSettings are lock.etcd of the configuration.
type EtcdSettings struct {
	// Endpoints are the members' client addresses, as "host:port" or as a URL (http, https). Default 127.0.0.1:2379.
	Endpoints []string `yaml:"endpoints"`
	// Prefix is what all keys begin with. All proxies of a store must have the same. Default "fence-proxy/".
	Prefix string `yaml:"prefix"`
	// TTL is how long the proxy's lease stands without being renewed, so how long others wait for the sessions of a proxy that is
	// gone. Whole seconds, at least 2. Default 10s.
	TTL time.Duration `yaml:"ttl"`
	// RequestTimeout is how long etcd may take to answer. Default 2s.
	RequestTimeout time.Duration `yaml:"request_timeout"`
	// DialTimeout is how long a connection may take to open. Default 2s.
	DialTimeout time.Duration `yaml:"dial_timeout"`
	// Username and Password are for clusters with authentication. The user needs to read and write below Prefix. Default none.
	Username string `yaml:"username"`
	Password string `yaml:"password"`
	// TLSCA, TLSCert and TLSKey are files in PEM: whom to believe (default: the system's authorities), and who the proxy is (default:
	// nobody). Certificate and key are read again for each connection.
	TLSCA   string `yaml:"tls_ca"`
	TLSCert string `yaml:"tls_cert"`
	TLSKey  string `yaml:"tls_key"`
}

func newEtcdSettings() Settings {
	return &EtcdSettings{
		Endpoints:      []string{"127.0.0.1:2379"},
		Prefix:         "fence-proxy/",
		TTL:            10 * time.Second,
		RequestTimeout: 2 * time.Second,
		DialTimeout:    2 * time.Second,
	}
}

// Validate implements Settings.
func (s *EtcdSettings) Validate() (setting, remedy string) {
	secure := 0
	for _, endpoint := range s.Endpoints {
		scheme, host, ok := strings.Cut(endpoint, "://")
		if !ok {
			scheme, host = "", endpoint
		}
		if (scheme != "" && scheme != "http" && scheme != "https") || host == "" || strings.ContainsAny(host, "/ ,") {
			return "endpoints", fmt.Sprintf("%q is no endpoint; give one as host:port or https://host:port", endpoint)
		}
		if scheme == "https" {
			secure++
		}
	}
	switch {
	case len(s.Endpoints) == 0:
		return "endpoints", "name at least one member of the cluster, as host:port"
	case secure != 0 && secure != len(s.Endpoints):
		return "endpoints", "use https for all endpoints or for none"
	case s.Prefix == "":
		return "prefix", "give a prefix that nobody else uses, such as fence-proxy/"
	case s.TTL < 2*time.Second || s.TTL%time.Second != 0:
		return "ttl", "use whole seconds, at least 2s"
	case s.RequestTimeout <= 0 || s.RequestTimeout >= s.TTL:
		return "request_timeout", "use a time above 0 and below ttl"
	case s.DialTimeout <= 0:
		return "dial_timeout", "use a time above 0"
	case s.Password != "" && s.Username == "":
		return "username", "name the user whose password is given"
	case s.Username != "" && s.Password == "":
		return "password", "give the password of " + s.Username
	case s.TLSCert != "" && s.TLSKey == "":
		return "tls_key", "name the file with the key of tls_cert"
	case s.TLSKey != "" && s.TLSCert == "":
		return "tls_cert", "name the file with the certificate of tls_key"
	case (s.TLSCA != "" || s.TLSCert != "") && secure == 0:
		return "endpoints", "begin each with https://, since TLS files are given"
	}
	return "", ""
}

// client is the configuration of etcd's client.
func (s *EtcdSettings) client() (clientv3.Config, error) {
	tlsConfig, err := s.tls()
	if err != nil {
		return clientv3.Config{}, err
	}
	// The library waits for up to two minutes between its attempts to connect.
	dialing := grpc.ConnectParams{MinConnectTimeout: s.DialTimeout, Backoff: backoff.DefaultConfig}
	dialing.Backoff.BaseDelay, dialing.Backoff.MaxDelay = 50*time.Millisecond, time.Second
	// And its calls wait for a connection, and say in the end that time is up, but not why there is none.
	impatient := func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		return invoke(ctx, method, request, reply, c, append(options, grpc.WaitForReady(false))...)
	}
	return clientv3.Config{
		Endpoints:            s.Endpoints,
		DialTimeout:          s.DialTimeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: s.RequestTimeout,
		Username:             s.Username,
		Password:             s.Password,
		TLS:                  tlsConfig,
		MaxUnaryRetries:      2, // the second may have a new login; others are made by ask
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(dialing), grpc.WithChainUnaryInterceptor(impatient)},
		Logger:               zap.NewNop(), // what went wrong is in the errors
	}, nil
}

// tls is nil for a connection in the clear.
func (s *EtcdSettings) tls() (*tls.Config, error) {
	if !strings.HasPrefix(s.Endpoints[0], "https://") {
		return nil, nil // the library's word for no TLS
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	return config, useFiles(config, s.TLSCA, s.TLSCert, s.TLSKey)
}
