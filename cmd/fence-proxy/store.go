package main

import (
	"errors"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/fence-proxy/fence-proxy/internal/app"
	"github.com/fence-proxy/fence-proxy/internal/config"
	"github.com/fence-proxy/fence-proxy/internal/tokenstore"
)

// openStore opens the store for a command that works on it and ends: db is the database of the upstream's URL. The
// caller closes the store.
func openStore(cmd *cobra.Command, cfg *config.Config) (store *tokenstore.Store, db int, err error) {
	logging.Disable() // of go-redis, whose remarks would stand between the command's
	store, db, err = app.OpenStore(cmd.Context(), cfg)
	switch {
	case errors.Is(err, app.ErrEmbedded):
		return nil, 0, usageError{err}
	case err != nil:
		return nil, 0, &statusError{exitUnavailable, err}
	}
	return store, db, nil
}
