package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// leastToken is how many characters a token has at least: nobody guesses so many.
const leastToken = 16

// errShortToken says that a token could be guessed.
var errShortToken = fmt.Errorf("the token has fewer than %d characters", leastToken)

// Token returns what whoever wants to change something at the admin address has to present; "" lets nobody. The
// file, if it is in one, is read now.
func (c *Config) Token() (string, error) {
	if c.AdminTokenFile == "" {
		return c.AdminToken, nil
	}
	text, err := os.ReadFile(c.AdminTokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < leastToken {
		return "", errShortToken
	}
	return token, nil
}

// checkAdmin looks at the options of the admin address besides the address itself.
func (c *Config) checkAdmin() []finding {
	var found []finding
	refuse := func(key, remedy, problem string, args ...any) {
		found = append(found, finding{key, fault{fmt.Sprintf(problem, args...), remedy}})
	}
	const remedy = "write 16 or more, as openssl rand -hex 16 makes them"
	if c.AdminToken != "" && len(c.AdminToken) < leastToken {
		refuse("admin_token", remedy, "has %d characters, and could be guessed", len(c.AdminToken))
	}
	if c.AdminToken != "" && c.AdminTokenFile != "" {
		refuse("admin_token_file", "leave one of them out", "is given, and so is admin_token")
	} else if _, err := c.Token(); errors.Is(err, errShortToken) {
		refuse("admin_token_file", remedy, "%v", err)
	} else if err != nil {
		refuse("admin_token_file", "check the path and its mode", "can't be read: %v", err)
	}
	for _, host := range c.AdminHosts {
		if host == "" || strings.ContainsAny(host, ":/ @*") {
			refuse("admin_hosts", "write names only, as in fence.internal.example, without scheme or port", "%q is not a host's name", host)
		}
	}
	return found
}
