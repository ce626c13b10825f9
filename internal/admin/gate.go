package admin

import (
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
)

// policy lets the page use its own files and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// withHeaders has every answer say what browsers may do with it.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// gate keeps other sites' pages out.
type gate struct {
	anyHost bool // no browser gets here
	hosts   []string
	origin  *http.CrossOriginProtection
	token   func() (string, error)
}

func newGate(o Options) *gate {
	g := &gate{anyHost: o.Network == "unix", origin: http.NewCrossOriginProtection(), token: o.Token}
	for _, host := range o.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(host))
	}
	if host, _, err := net.SplitHostPort(o.Address); err == nil && host != "" {
		g.hosts = append(g.hosts, strings.ToLower(host))
	}
	return g
}

// knows reports whether a request names a host that may be this one. A name that is not known may be that of a page
// that has had it point here, and would read all of this as its own.
func (g *gate) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	return g.anyHost || net.ParseIP(host) != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(g.hosts, host)
}

// reads lets through what may read.
func (g *gate) reads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.knows(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, "this is not known as "+quote(r.Host)+": use an address or localhost, or add the name to admin_hosts")
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			refuse(w, http.StatusForbidden, "another site's page asks for this")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// changes lets through what may change something: the token, from this page or from no page at all.
func (g *gate) changes(next http.Handler) http.Handler {
	return g.reads(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.origin.Check(r); err != nil {
			refuse(w, http.StatusForbidden, "another site's page asks for this")
			return
		}
		token, err := g.token()
		switch {
		case err != nil:
			refuse(w, http.StatusForbidden, "the admin token can't be read: "+err.Error())
		case token == "":
			refuse(w, http.StatusForbidden, "read-only: no admin token is set (admin_token, admin_token_file, FENCE_ADMIN_TOKEN)")
		case !presents(r, token):
			w.Header().Set("WWW-Authenticate", `Bearer realm="fence-proxy"`)
			refuse(w, http.StatusUnauthorized, "the admin token is missing or not the right one")
		default:
			next.ServeHTTP(w, r)
		}
	}))
}

// presents reports whether a request has the token. It takes as long for any that has the same length.
func presents(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// ErrOther says that another grant holds a session than the one that was to be broken.
var ErrOther = errors.New("another grant holds the session by now")
