package config

import (
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// String lists all options on one line, with what is secret masked. So do
// formatting a Config in any other way, and logging it.
func (c Config) String() string {
	var b strings.Builder
	for o := range c.inForce() {
		fmt.Fprintf(&b, "%s=%s ", o.key, c.masked(o))
	}
	rules := make([]string, len(c.Rules))
	for i, r := range c.Rules {
		rules[i] = r.Name
	}
	if len(c.Users) > 0 {
		fmt.Fprintf(&b, "users=%v ", c.Users)
	}
	fmt.Fprintf(&b, "rules=[%s]", strings.Join(rules, " "))
	return b.String()
}

// inForce yields the options that mean something: of providers' settings those of the one that is used.
func (c *Config) inForce() iter.Seq[option] {
	return func(yield func(option) bool) {
		for _, o := range options() {
			if o.kind != "" && o.kind != c.Lock.Provider {
				continue
			}
			if !yield(o) {
				return
			}
		}
	}
}

// masked stands for what is secret.
const masked = "xxxxx"

// masked is an option's text, with what is secret masked.
func (c *Config) masked(o option) string {
	if o.key == "upstream.url" {
		return c.Upstream.Redacted()
	}
	return redacted(o.key, o.field(c).Interface())
}

// redacted is an option's value, with what may be a secret masked: one that is named so, and the password of a URL.
func redacted(key string, value any) string {
	text := fmt.Sprint(value)
	if isSecret(key) && text != "" {
		return masked
	}
	mask := func(text string) string {
		if parsed, err := url.Parse(text); err == nil && parsed.User != nil {
			return parsed.Redacted()
		}
		return text
	}
	switch value := value.(type) {
	case string:
		return mask(value)
	case []string:
		all := make([]string, len(value))
		for i, text := range value {
			all[i] = mask(text)
		}
		return fmt.Sprint(all)
	}
	return text
}

// isSecret reports whether an option's value is one that nobody is to see, by its name.
func isSecret(key string) bool {
	name, _, _ := strings.Cut(key[strings.LastIndexByte(key, '.')+1:], "[")
	return slices.ContainsFunc([]string{"password", "passwords", "token", "secret", "auth"}, func(secret string) bool { return strings.HasSuffix(name, secret) })
}

// Redacted returns the URL with the password masked.
func (u Upstream) Redacted() string {
	if u.URL == Embedded {
		return u.URL
	}
	if masked := maskURL(u.URL); masked != "" {
		return masked
	}
	return "(not a URL)"
}

// String returns the URL with the password masked.
func (u Upstream) String() string { return u.Redacted() }

// String says where the target is; the password is not in it.
func (t Target) String() string {
	if t.Embedded {
		return Embedded
	}
	return fmt.Sprintf("%s:%s db %d", t.Network, t.Address, t.DB)
}

// GoString is String, for %#v.
func (c Config) GoString() string { return c.String() }

// LogValue is String, for slog.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalText is String, for encoders. It does not fail.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// GoString is String, for %#v.
func (u Upstream) GoString() string { return u.String() }

// LogValue is String, for slog.
func (u Upstream) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText is String, for encoders. It does not fail.
func (u Upstream) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// GoString is String, for %#v.
func (t Target) GoString() string { return t.String() }

// LogValue is String, for slog.
func (t Target) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText is String, for encoders. It does not fail.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
