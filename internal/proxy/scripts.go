package proxy

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/rule"
)

// A script's keys are those that it declares. What it makes up inside can't be known before it runs, and is not fenced;
// but where guarded keys show in its call or in its text, though it declares none of their rule, it is refused, unless the
// rule says otherwise.

// reservedInScript refuses a script, or a library, that names reserved keys, declared or not: no client has business there.
func reservedInScript(cmd *command.Command, args [][]byte) error {
	var text []byte
	if len(args) < 2 {
		return nil // Redis refuses it
	}
	switch cmd.Name {
	case "eval", "eval_ro":
		text, args = args[1], args[2:]
	case "evalsha", "evalsha_ro", "fcall", "fcall_ro":
		args = args[2:]
	case "script|load", "function|load", "script": // before 7.0 the table has no subcommands
		if !bytes.EqualFold(args[1], []byte("load")) {
			return nil
		}
		text, args = args[len(args)-1], nil
	default:
		return nil
	}
	if bytes.Contains(text, reservedPrefix) {
		return &deniedError{reason: fmt.Sprintf("%s: the script names %q, which is reserved for fence records", cmd.Name, reservedPrefix)}
	}
	for _, arg := range args {
		if isReserved(arg) {
			return reserved(arg)
		}
	}
	return nil
}

// undeclared refuses a script that names keys of a rule without declaring any. args[2] is the number of keys.
func (c *client) undeclared(cmd *command.Command, args [][]byte) error {
	switch cmd.Name {
	case "eval", "evalsha", "fcall":
	default:
		return nil
	}
	if len(args) < 3 {
		return nil // Redis refuses it
	}
	n, err := strconv.Atoi(string(args[2]))
	if err != nil || n < 0 || n > len(args)-3 {
		return nil // likewise
	}
	declared, rest := args[3:3+n], args[3+n:]
	for _, arg := range rest {
		if r := c.srv.rules.Match(arg); r.RefusesScripts() && !declares(c, declared, r) {
			return undeclaredBy(cmd, r)
		}
	}
	if cmd.Name != "eval" {
		return nil
	}
	for _, r := range c.srv.rules.now().set.Rules() {
		if r.RefusesScripts() && bytes.Contains(args[1], []byte(r.Prefix)) && !declares(c, declared, r) {
			return undeclaredBy(cmd, r)
		}
	}
	return nil
}

func declares(c *client, keys [][]byte, r *rule.Rule) bool {
	for _, key := range keys {
		if c.srv.rules.Match(key) == r {
			return true
		}
	}
	return false
}

func undeclaredBy(cmd *command.Command, r *rule.Rule) error {
	return &deniedError{reason: fmt.Sprintf("rule %q: %s: the script names keys under %q and declares none: pass them as KEYS, or set scripts: allow for the rule",
		r.Name, cmd.Name, r.Prefix)}
}
