package config

import (
	"fmt"

	"github.com/fence-proxy/fence-proxy/internal/secret"
)

// Login says as whom to log in. It is asked for each new connection.
type Login func() (username, password string)

// Login is as whom the proxy logs in at the Redis. A password in a file is read each time; bad is told, once, of each new
// trouble with the file, and what was read before goes on to count then.
func (u Upstream) Login(t Target, bad func(error)) Login {
	return login(t.Username, t.Password, u.PasswordFile, bad)
}

// Login is the same at the Sentinels.
func (s Sentinel) Login(bad func(error)) Login {
	return login(s.Username, s.Password, s.PasswordFile, bad)
}

func login(username, password, path string, bad func(error)) Login {
	if path == "" {
		return func() (string, string) { return username, password }
	}
	file := secret.NewFile(path, bad)
	return func() (string, string) {
		all := file.Passwords()
		if all == nil {
			return username, ""
		}
		return username, all[0]
	}
}

// checkLogin looks at as whom the proxy logs in, under a key.
func checkLogin(key, username, password, path string) []finding {
	var found []finding
	refuse := func(option, problem, remedy string) {
		found = append(found, finding{join(key, option), fault{problem, remedy}})
	}
	if username != "" && password == "" && path == "" {
		refuse("username", "is given without a password", fmt.Sprintf("give %s.password or %s.password_file as well", key, key))
	}
	if path == "" {
		return found
	}
	if password != "" {
		refuse("password_file", "is given, and so is "+join(key, "password"), "leave one of them out")
	}
	if all, err := secret.Read(path); err != nil {
		refuse("password_file", "can't be read: "+err.Error(), "check the path and its mode")
	} else if len(all) > 1 {
		refuse("password_file", fmt.Sprintf("has %d lines", len(all)), "leave the password alone in it")
	}
	return found
}

// checkLogin looks at as whom the proxy logs in at a target.
func (u Upstream) checkLogin(t Target) []finding {
	found := checkLogin("upstream", u.Username, u.Password, u.PasswordFile)
	for _, given := range []struct{ option, value string }{{"username", u.Username}, {"password", u.Password}, {"password_file", u.PasswordFile}} {
		switch key := join("upstream", given.option); {
		case given.value == "":
		case t.Embedded:
			found = append(found, finding{key, fault{"is given, and the embedded store asks for none", "remove it, or name the Redis in upstream.url"}})
		case urlPassword(u.URL):
			found = append(found, finding{key, fault{"is given, and upstream.url has a password", "leave one of them out"}})
		}
	}
	return found
}

// urlPassword reports whether a URL has a password in it.
func urlPassword(text string) bool {
	t, f := parseURL(text)
	return f == nil && t.Password != ""
}
