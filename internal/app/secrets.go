package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"atrium/internal/secrets"
	"atrium/internal/store"
)

// ErrSecretsKeyFile says that the file of the setting cannot be used.
var ErrSecretsKeyFile = errors.New("secrets-key-file")

// useSecrets lets the store use the keys of the settings. It logs a warning if other users can read them too.
func useSecrets(c Config) error {
	keys, err := secrets.Load(c.Settings.SecretsKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w: check the path, or run atrium secrets add-key to create it", ErrSecretsKeyFile, err)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSecretsKeyFile, err)
	}
	if file := c.Settings.SecretsKeyFile; file != "" {
		if info, err := os.Stat(file); err == nil && othersMayUse(info) {
			c.Log.Warn("other users can read the keys of secrets: run chmod 600", "file", file, "mode", info.Mode().Perm().String())
		}
	}
	c.Store.UseSecrets(keys)
	return nil
}

// secretsInterval is the time between two checks of the keys. Others add a key rarely.
const secretsInterval = time.Minute

func (a *App) secretsJob(s *store.Store) job {
	return job{"secret-keys", secretsInterval, func(ctx context.Context) (bool, error) { return false, a.checkSecrets(ctx, s) }}
}

// checkSecrets makes the service ready or not, by whether it has the keys of all stored secrets.
func (a *App) checkSecrets(ctx context.Context, s *store.Store) error {
	lacks, err := missingKeys(ctx, s, a.settings.SecretsKeyFile)
	if err != nil {
		return err
	}
	failed := a.lacksKeys() != nil
	a.missingKeys.Store(&lacks)
	switch {
	case lacks != nil && !failed:
		a.log.Error("not ready: keys of stored secrets are missing", "error", lacks)
	case lacks == nil && failed:
		a.log.Info("ready: no key of a stored secret is missing")
	}
	return nil
}

// lacksKeys returns why the process cannot decrypt stored secrets, nil if it can or has not checked it yet.
func (a *App) lacksKeys() error {
	if lacks := a.missingKeys.Load(); lacks != nil {
		return *lacks
	}
	return nil
}

// missingKeys returns why the process, which has the keys of file, cannot decrypt stored secrets, nil if it can.
// err says that this is not known.
func missingKeys(ctx context.Context, s *store.Store, file string) (lacks, err error) {
	missing, err := s.MissingSecretKeys(ctx)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	if file == "" {
		return fmt.Errorf("secrets-key-file is not set, and secrets in the database are encrypted with the keys %s: set it to the file that has them, on all nodes", secrets.JoinKeyIDs(missing)), nil
	}
	return fmt.Errorf("secrets-key-file lacks the keys %s, with which secrets in the database are encrypted: use the file that has them, on all nodes", secrets.JoinKeyIDs(missing)), nil
}
