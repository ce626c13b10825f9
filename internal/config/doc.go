// Package config reads the proxy's configuration and refuses to start on a
// mistake in it.
//
//	flag  >  FENCE_… variable  >  file  >  default
//
// An option's value is the first of these that is given. [Load] reads them all;
// [Default] is what runs with none of them: an in-memory store and one rule.
//
// # Files
//
// The file is YAML; config.yaml at the root of the repository shows every
// option, with its default and unit. Times are written as a number and a unit
// (1500ms, 30s, 2m, 1h). It is read strictly: an unknown or repeated key, a
// value of the wrong type, a number without a unit, an option without a value
// and a second document are all refused, as is a value that cannot work.
//
// [Load] reports all mistakes at once, one [*Error] for each, which names the
// file and line, the option, what is wrong and what to write instead:
//
//	config.yaml:12: rules[0].wait: "1500" has no unit: write 1500ms or 2s
//
// What is allowed but worth knowing is in [Config.Notes].
//
// A file that has no rules guards nothing; only without a file are the rules
// the built-in ones.
//
// # Environment
//
// Each option but the rules has a variable: FENCE_ and the option's path in
// capitals, "_" for ".", as in FENCE_UPSTREAM_URL. A variable that is set to
// nothing counts as not set. Variables with other names that begin with FENCE_
// are not an error, for Kubernetes makes such ones up from the names of
// services, but one that is nearly an option's name is noted.
//
// # Flags
//
// [AddFlags] defines a flag for each of the main options.
//
// # Reading it again
//
// A [Source] tells when the file is another; [Config.Revised] says what a proxy
// that runs makes of it.
//
// # Adding an option
//
// An option is a field of [Config] with a yaml tag, its default in defaults, its
// check in (*Config).check and a line in config.yaml; a test sees to the last
// one. If a running proxy can take it over it is listed as live. An option of a rule is a field of [rule.Rule].
//
// # Secrets
//
// Passwords are in URLs, and in options that are named for them, as admin_token.
// Printing or logging a [Config], an [Upstream] or a [Target] masks them, as
// [Config.Show] does, and no error or note repeats them.
package config
