package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/lock"
	"github.com/fence-proxy/fence-proxy/internal/lock/provider"
	"github.com/fence-proxy/fence-proxy/internal/rule"
	"github.com/fence-proxy/fence-proxy/internal/run"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// Exit statuses of exec beside the command's own, as in sysexits.h and as a shell has them.
const (
	exitUnavailable = 69  // Redis can't be asked
	exitTempFail    = 75  // the session is somebody else's, or has become so
	exitCantRun     = 126 // the command can't be run
	exitNotFound    = 127 // there is no such command
)

// statusError is an exit status of its own. Without an error nothing is printed.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// execOptions are the flags of exec.
type execOptions struct {
	config    string
	session   string
	ttl, wait time.Duration
	grace     time.Duration
}

func newExec() *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use: "exec --session KEY [flags] -- COMMAND [ARG ...]", Short: "Run a command only while holding a session",
		Long: `exec waits for the session of a key, runs the command, and releases the session when the command has ended: for
cron jobs of which one may run at a time, and for services of which one is the leader. It needs no proxy, but
the same configuration: a key that a rule guards has that rule's session, any other key one of its own.

The hold is renewed at a third of --ttl. When it is lost, the command gets SIGTERM, and SIGKILL after --grace.
The command finds its grant in ` + run.GrantVariable + ` and may write under it: FENCE.DO $` + run.GrantVariable + ` SET …

The exit status is the command's, 128 and the signal's number if one has ended it; 75 if the session was not to
be had within --wait, or was lost and the command then ended with 0; 69 if Redis could not be asked; 126 or 127 if
there is no such command; 2 for a mistake in the flags or the configuration.`,
		DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.session == "":
				return usageError{errors.New("exec needs --session KEY: which session to hold")}
			case len(args) == 0:
				return usageError{errors.New("exec needs a command to run, as in: fence-proxy exec --session job:nightly -- ./nightly.sh")}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&o.config, "config", "", "configuration `file`")
	flags.StringVar(&o.session, "session", "", "the `key` whose session to hold")
	flags.DurationVar(&o.ttl, "ttl", 0, "how long the hold outlives this process, as a `time`; the rule's lease unless given")
	flags.DurationVar(&o.wait, "wait", 0, "how long to wait for the session, as a `time`; the rule's wait unless given, 0s not at all")
	flags.DurationVar(&o.grace, "grace", 10*time.Second, "`time` between SIGTERM and SIGKILL when the hold is lost")
	main := new(pflag.FlagSet)
	config.AddFlags(main)
	for _, name := range []string{"upstream", "name", "log-level", "log-format"} {
		flags.AddFlag(main.Lookup(name))
	}
	cmd.RunE = o.run
	return cmd
}

func (o *execOptions) run(cmd *cobra.Command, args []string) error {
	cfg, err := config.Load(o.config, cmd.Flags())
	if err != nil {
		return err
	}
	terms, session, err := o.terms(cfg, cmd.Flags())
	if err != nil {
		return usageError{err}
	}
	if err := run.Find(args[0]); err != nil {
		return execError(0, err)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, run.Passed()...)
	defer signal.Stop(signals)

	store, db, err := openStore(cmd, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	area := app.AreaOf(cfg, terms, db, []byte(o.session))
	log := newLogger(cmd.ErrOrStderr(), cfg.Log, new(slog.LevelVar))
	outside, err := app.OpenLocker(cfg, strings.ToLower(rand.Text()), log)
	if outside == nil && area.Spans {
		outside = app.OpenHome(store, strings.ToLower(rand.Text()), log)
	}
	if err != nil {
		return &statusError{exitUnavailable, err}
	}
	if outside != nil {
		defer closeLocker(cmd.Context(), outside.Locker)
	}
	status, err := run.Run(cmd.Context(), run.Options{
		Store: store, Area: area, Terms: terms, Session: session, Command: args, Grace: o.grace, Signals: signals,
		Identity: tokenstore.Identity{Proxy: cfg.Name, Client: fmt.Sprintf("exec, process %d", os.Getpid()), Name: filepath.Base(args[0])},
		Log:      log, Outside: outside,
	})
	if status == 0 && err == nil {
		return nil
	}
	return execError(status, err)
}

// closeTime bounds giving back at the end what is held at a lock provider.
const closeTime = 2 * time.Second

func closeLocker(ctx context.Context, l provider.Locker) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	_ = l.Close(ctx) // its lease ends what is held
}

// terms finds the session and on which terms it is held.
func (o *execOptions) terms(cfg *config.Config, flags *pflag.FlagSet) (*rule.Rule, string, error) {
	if strings.HasPrefix(o.session, tokenstore.Prefix) {
		return nil, "", fmt.Errorf("--session: the key %q is reserved for fence records", o.session)
	}
	key := []byte(o.session)
	r := cfg.Set.Match(key)
	if !r.Guards() {
		r = rule.ForUnguarded()
	}
	terms := *r
	if flags.Changed("ttl") {
		if terms.Lease = o.ttl; o.ttl < rule.MinLease || o.ttl > r.MaxHold {
			return nil, "", fmt.Errorf("--ttl: write %s to %s", rule.Text(rule.MinLease), rule.Text(r.MaxHold))
		}
	}
	if flags.Changed("wait") {
		if terms.Wait = o.wait; o.wait < 0 {
			return nil, "", errors.New("--wait: write 0s or more")
		}
	}
	if o.grace < 0 {
		return nil, "", errors.New("--grace: write 0s or more")
	}
	return &terms, string(r.AppendSession(nil, key)), nil
}

// execError is what exec ends with.
func execError(status int, err error) error {
	var locked *lock.LockedError
	var start *run.StartError
	switch {
	case errors.As(err, &locked):
		h := locked.Holder
		return &statusError{exitTempFail, fmt.Errorf("%v is held by client %q of proxy %s since %s (grant %d)",
			locked.Record, h.Client, h.Proxy, h.Since.UTC().Format(time.RFC3339), h.Grant)}
	case errors.Is(err, run.ErrLost):
		if status == 0 {
			status = exitTempFail
		}
		return &statusError{status, err}
	case errors.As(err, &start) && start.NotFound():
		return &statusError{exitNotFound, err}
	case errors.As(err, &start):
		return &statusError{exitCantRun, err}
	case err != nil:
		return &statusError{exitUnavailable, err}
	}
	return &statusError{status: status}
}
