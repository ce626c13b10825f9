package proxy

import (
	"fmt"

	"github.com/fence-proxy/fence-proxy/internal/command"
	"github.com/fence-proxy/fence-proxy/internal/resp"
)

// A command is done under a grant from any connection of any proxy: it is refused unless the grant is the
// newest of each guarded session that it touches. Where it touches none, its first key is the session that the
// grant must be of. It changes nothing about the hold.

// doUnder is FENCE.DO.
func (c *client) doUnder(args [][]byte) error {
	grant, err := grantOf(args[1])
	if err != nil {
		return err
	}
	c.doing = grant
	defer func() { c.doing = 0 }()
	args = args[2:]
	if w := wordOf(args[0]); w != nil && w.name == "fence.once" {
		if err := misspoken(w, args); err != nil {
			return err
		}
		return c.once(args)
	}
	cmd, err := c.commandOf(args)
	if err != nil {
		return err
	}
	if cmd.Name == "watch" || cmd.Is(command.FlagPubSub) {
		return &deniedError{reason: cmd.Name + " can't be done under a grant: it changes the connection"}
	}
	p, err := c.plan(cmd, args)
	switch {
	case err != nil:
		return err
	case len(p.parts) == 0:
		return &deniedError{reason: cmd.Name + " touches no key: there is no session that the grant could be of"}
	}
	return c.guard(cmd, p, resp.Request{Args: args, Raw: resp.AppendCommand(nil, args...)})
}

// commandOf finds a command that is an argument of another.
func (c *client) commandOf(args [][]byte) (*command.Command, error) {
	cmd, ok := c.srv.commands.table.Lookup(args)
	switch {
	case isSaid(args[0]):
		return nil, &deniedError{reason: fmt.Sprintf("%s can't be said inside another command", clip(args[0]))}
	case !ok:
		return nil, wordError(fmt.Sprintf("ERR unknown command '%s'", clip(args[0])))
	case !cmd.Fits(len(args)):
		return nil, wordError("ERR wrong number of arguments for '" + cmd.Name + "' command")
	}
	return cmd, nil
}
