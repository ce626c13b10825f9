package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags defines a flag for each of the main options: --listen, --admin,
// --upstream, --name, --log-level, --log-format and --drain. A flag that is given wins over
// the variable and the file.
func AddFlags(flags *pflag.FlagSet) {
	d := defaults()
	flags.String("listen", d.Listen, "where clients connect: `host:port` or unix:///path")
	flags.String("admin", d.Admin, "where the status page, health and metrics are served: `host:port`, unix:///path, or nothing to turn it off")
	flags.String("upstream", d.Upstream.URL, "the Redis that holds the data: redis://…, unix:///path or embedded:, as `URL`")
	flags.String("name", d.Name, "this proxy's `name` in messages")
	flags.String("log-level", d.Log.Level, "least `level` that is logged: debug, info, warn or error")
	flags.String("log-format", d.Log.Format, "text or json, as `format`")
	flags.String("drain", d.Drain.String(), "`time` that sequences have to finish after SIGTERM")
}

// flagOf returns the name that an option's flag has, if it has one.
func flagOf(key string) string {
	if key == "upstream.url" {
		return "upstream"
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(key)
}
