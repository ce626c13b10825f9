package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// String lists all options on one line, with the password masked. So do
// formatting a Config in any other way, and logging it.
func (c Config) String() string {
	var b strings.Builder
	for _, o := range options() {
		text := fmt.Sprint(o.field(&c))
		switch {
		case o.key == "upstream.url":
			text = c.Upstream.Redacted()
		case o.kind != "" && o.kind != c.Lock.Provider:
			continue
		case o.kind != "":
			text = redacted(o.key, o.field(&c).Interface())
		}
		fmt.Fprintf(&b, "%s=%s ", o.key, text)
	}
	rules := make([]string, len(c.Rules))
	for i, r := range c.Rules {
		rules[i] = r.Name
	}
	fmt.Fprintf(&b, "rules=[%s]", strings.Join(rules, " "))
	return b.String()
}

// redacted is a provider's setting, with what may be a secret masked: one that is named so, and the password of a URL.
func redacted(key string, value any) string {
	name := key[strings.LastIndexByte(key, '.')+1:]
	text := fmt.Sprint(value)
	for _, secret := range []string{"password", "token", "secret", "auth"} {
		if strings.HasSuffix(name, secret) && text != "" {
			return "xxxxx"
		}
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

// Redacted returns the URL with the password masked.
func (u Upstream) Redacted() string {
	if u.URL == Embedded {
		return u.URL
	}
	parsed, err := url.Parse(u.URL)
	if err != nil {
		return "(not a URL)"
	}
	return parsed.Redacted()
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
