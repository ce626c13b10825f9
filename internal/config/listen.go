package config

import (
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
)

// maxSocketPath is the longest path that the kernel takes for a socket.
const maxSocketPath = 107

// ListenAddress returns Listen in the form that [net.Listen] takes: "tcp" and
// host:port, or "unix" and a path.
func (c *Config) ListenAddress() (network, address string) {
	network, address, _ = splitListen(c.Listen)
	return network, address
}

// AdminAddress is [Config.ListenAddress] for Admin; address is "" if nothing is
// to be served.
func (c *Config) AdminAddress() (network, address string) {
	if c.Admin == "" {
		return "", ""
	}
	network, address, _ = splitListen(c.Admin)
	return network, address
}

// ListenMode is the mode that the socket at Listen is to have; ok is false if its creator's umask decides.
func (c *Config) ListenMode() (mode fs.FileMode, ok bool) {
	_, query, _ := strings.Cut(c.Listen, "?")
	mode, ok, _ = socketMode(query)
	return mode, ok
}

// socketMode reads what stands behind the ? of a socket's address.
func socketMode(query string) (mode fs.FileMode, ok bool, _ *fault) {
	if query == "" {
		return 0, false, nil
	}
	octal, is := strings.CutPrefix(query, "mode=")
	n, err := strconv.ParseUint(octal, 8, 9)
	if !is || err != nil {
		return 0, false, &fault{fmt.Sprintf("has %q behind the ?", query), "write the mode of the socket, as in ?mode=0660, or nothing"}
	}
	return fs.FileMode(n), true, nil
}

func splitListen(listen string) (network, address string, _ *fault) {
	const examples = `write host:port, as in 127.0.0.1:6380, or unix:///run/fence-proxy.sock`
	if strings.HasPrefix(listen, "unix:") {
		path, ok := strings.CutPrefix(listen, "unix://")
		if !ok || !strings.HasPrefix(path, "/") {
			return "", "", &fault{fmt.Sprintf("%q is not the address of a socket", listen), "write three slashes and the full path, as in unix:///run/fence-proxy.sock"}
		}
		path, query, _ := strings.Cut(path, "?")
		if len(path) > maxSocketPath {
			return "", "", longPath(path)
		}
		if _, _, f := socketMode(query); f != nil {
			return "", "", f
		}
		return "unix", path, nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", "", &fault{fmt.Sprintf("%q is not an address", listen), examples}
	}
	if !isPort(port, 0) {
		return "", "", &fault{fmt.Sprintf("%q is not a port", port), "write a number up to 65535, or 0 for any free port"}
	}
	if strings.ContainsAny(host, "/ @") {
		return "", "", &fault{fmt.Sprintf("%q is not a host", host), examples}
	}
	return "tcp", listen, nil
}

func longPath(path string) *fault {
	return &fault{fmt.Sprintf("the path has %d bytes, and a socket's may have %d", len(path), maxSocketPath), "choose a shorter one"}
}

func isPort(text string, least int) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && int(n) >= least
}

// listensAt reports whether the upstream is the proxy's own listener, as far as
// can be told without resolving names.
func (c *Config) listensAt(t Target) bool {
	network, address := c.ListenAddress()
	if network != t.Network {
		return false
	}
	if network == "unix" {
		return address == t.Address
	}
	host, port, _ := net.SplitHostPort(address)       // checked by splitListen
	toHost, toPort, _ := net.SplitHostPort(t.Address) // made by parseURL
	if port != toPort || port == "0" {
		return false
	}
	everywhere := host == "" || net.ParseIP(host).IsUnspecified()
	return host == toHost || isLoopback(toHost) && (everywhere || isLoopback(host))
}

func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
