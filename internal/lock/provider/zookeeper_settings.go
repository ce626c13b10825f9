package provider

import (
	"net"
	"path"
	"strings"
	"time"
)

// ZooKeeperSettings are the settings of lock.zookeeper.
type ZooKeeperSettings struct {
	// Servers are the ensemble's servers, as host or host:port; 2181 is the default port. Names are looked up
	// for every connection. Default: 127.0.0.1.
	Servers []string `yaml:"servers"`
	// Path is the node below which all sessions are. It is created, with its parents, if it does not exist. Default: /fence-proxy.
	Path string `yaml:"path"`
	// SessionTimeout is the lease of all holds: they stand for so long after the ensemble has last heard of the proxy. The servers
	// hold it within bounds of their own, by default 4 to 40 seconds. Default: 10s.
	SessionTimeout time.Duration `yaml:"session_timeout"`
	// Auth is "user:password" for ZooKeeper's digest scheme. With it, all nodes are for this user only. Default: none, and
	// nodes are open to all.
	Auth string `yaml:"auth"`
	// TLS has connections encrypted. Default: false.
	TLS bool `yaml:"tls"`
	// TLSCA is a file with the certificates that the servers' are signed with, in PEM. Default: the system's.
	TLSCA string `yaml:"tls_ca"`
	// TLSCert and TLSKey are files with the proxy's own certificate and its key, in PEM. Default: none.
	TLSCert string `yaml:"tls_cert"`
	TLSKey  string `yaml:"tls_key"`
}

func zookeeperDefaults() Settings {
	return &ZooKeeperSettings{Servers: []string{"127.0.0.1"}, Path: "/fence-proxy", SessionTimeout: 10 * time.Second}
}

// Validate is part of Settings.
func (s *ZooKeeperSettings) Validate() (setting, remedy string) {
	if len(s.Servers) == 0 {
		return "servers", "name the servers of the ensemble, as in [zk1:2181, zk2:2181, zk3:2181]"
	}
	for _, server := range s.Servers {
		host, _, err := net.SplitHostPort(zookeeperAddress(server))
		if err != nil || host == "" || strings.ContainsAny(server, "/, ") {
			return "servers", "write each server as host or host:port"
		}
	}
	switch {
	case !strings.HasPrefix(s.Path, "/") || s.Path == "/" || path.Clean(s.Path) != s.Path:
		return "path", "write a path as in /fence-proxy"
	case strings.HasPrefix(s.Path+"/", "/zookeeper/"):
		return "path", "choose another one: /zookeeper is ZooKeeper's own"
	case s.SessionTimeout < 200*time.Millisecond || s.SessionTimeout > time.Hour:
		return "session_timeout", "choose 200ms to 1h"
	case s.Auth != "" && !strings.Contains(s.Auth, ":"):
		return "auth", "write user:password"
	case s.TLSCert == "" && s.TLSKey != "":
		return "tls_cert", "give both tls_cert and tls_key, or none"
	case s.TLSCert != "" && s.TLSKey == "":
		return "tls_key", "give both tls_cert and tls_key, or none"
	case !s.TLS && (s.TLSCA != "" || s.TLSCert != ""):
		return "tls", "set it to true, or leave out tls_ca, tls_cert and tls_key"
	}
	return "", ""
}

// zookeeperAddress gives a server without a port ZooKeeper's own.
func zookeeperAddress(server string) string {
	if _, _, err := net.SplitHostPort(server); err == nil {
		return server
	}
	return net.JoinHostPort(strings.Trim(server, "[]"), "2181")
}
