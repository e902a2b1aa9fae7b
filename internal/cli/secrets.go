package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/config"
	"atrium/internal/secrets"
	"atrium/internal/store"
)

func newSecrets() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secrets",
		Short: "Manage the keys that encrypt secrets in the database",
		Long: `Manage the keys that encrypt secrets in the database, such as those that sign webhooks. The
keys are in the file that the setting secrets-key-file names, one per line. The first one
encrypts, and all of them decrypt.`,
	}
	cmd.AddCommand(newAddKey(), newRewrap(), newForgetKey())
	return cmd
}

// errNoKeyFile is the error of a command that needs the file.
var errNoKeyFile = errors.New("no file: pass --secrets-key-file or set ATRIUM_SECRETS_KEY_FILE")

// addedKey is the output of atrium secrets add-key.
type addedKey struct {
	File    string `json:"file"`
	Key     string `json:"key"` // its ID
	Created bool   `json:"created"`
	Last    bool   `json:"last"`
}

func newAddKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add-key",
		Short: "Add a random key to the file with the keys, or create the file",
		Long: `Add a random key to the file that the setting secrets-key-file names. The command creates a
missing file, which only its owner can read. Keep a copy of the file apart from backups of
the database: without it, every webhook and receiver needs a new secret.

The key comes first: it encrypts from the next start of the server on, and the other keys
still decrypt. To replace the keys of a single server, restart it and run atrium secrets
rewrap; then delete the other lines.

With several servers, all of them need a key before one of them encrypts with it. Pass
--last, distribute the file, restart all servers, move the line to the top of the file,
distribute it and restart again.`,
		Example: `  atrium secrets add-key --secrets-key-file /etc/atrium/secrets-keys
  ATRIUM_SECRETS_KEY_FILE=secrets-keys atrium secrets add-key --last`,
		Args: cobra.NoArgs,
	}
	settings := config.Default()
	loader := config.Bind(cmd.Flags(), &settings, "secrets-key-file")
	last := cmd.Flags().Bool("last", false, "add the key as the last one, which only decrypts")
	out := outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		if _, err := loader.Load(os.LookupEnv); err != nil {
			return usageError{err}
		}
		warn(cmd.ErrOrStderr(), loader.Warnings...)
		added := addedKey{File: settings.SecretsKeyFile, Last: *last}
		if added.File == "" {
			return usageError{errNoKeyFile}
		}
		id, created, err := secrets.AddKey(added.File, *last)
		if err != nil {
			return fmt.Errorf("add a key: %w", err)
		}
		added.Key, added.Created = id.String(), created
		return out.print(cmd, added, added.print)
	})
	return cmd
}

func (a addedKey) print(w io.Writer) {
	switch {
	case a.Created:
		fmt.Fprintf(w, "Created %s with the key %s. Keep a copy apart from backups of the database.\n", a.File, a.Key)
	case a.Last:
		fmt.Fprintf(w, "Added the key %s to the end of %s. Restart all servers with it before you move it to the top.\n", a.Key, a.File)
	default:
		fmt.Fprintf(w, "Added the key %s to %s. Restart the server, and then run atrium secrets rewrap.\n", a.Key, a.File)
	}
}

func newRewrap() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rewrap",
		Short: "Encrypt all secrets in the database with the first key",
		Long: `Encrypt all secrets in the database with the first key of the file that the setting
secrets-key-file names. Servers can be running, if they have the key. If the command is
interrupted, run it again.

Afterwards, no secret in the database needs the other keys: delete their lines, unless a
backup that you may restore is older.`,
		Example: "  atrium secrets rewrap --secrets-key-file /etc/atrium/secrets-keys",
		Args:    cobra.NoArgs,
	}
	load, out := databaseFlags(cmd.Flags(), "secrets-key-file"), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		return withSecrets(cmd, load, func(keys *secrets.Keyring, s *store.Store) error {
			if keys == nil {
				return usageError{errNoKeyFile}
			}
			missing, err := s.MissingSecretKeys(cmd.Context())
			if err != nil {
				return err
			}
			if len(missing) > 0 {
				return fmt.Errorf("the file lacks keys of secrets in the database: %s", secrets.JoinKeyIDs(missing))
			}
			done, err := s.Rewrap(cmd.Context())
			if err != nil {
				return err
			}
			return out.print(cmd, done, func(w io.Writer) {
				fmt.Fprintf(w, "Encrypted %d of %s again. Only the key %s is needed now.\n", done.Rewrapped, atrium.Count(done.Secrets, "secret", "secrets"), keys.Keys()[0])
			})
		})
	})
	return cmd
}

func newForgetKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget-key ID...",
		Short: "Declare keys lost, so that servers are ready without them",
		Long: `Declare keys lost, so that servers whose secrets-key-file lacks them are ready again. The
secrets that these keys have encrypted stay unreadable: rotate the secret of each webhook
and receiver. "atrium doctor" and the log of a server that is not ready name the keys.`,
		Example: "  atrium secrets forget-key 6f0c8a5b1d2e3f40",
		Args:    cobra.MinimumNArgs(1),
	}
	load, out := databaseFlags(cmd.Flags(), "secrets-key-file"), outputFlag(cmd)
	yes := cmd.Flags().Bool("yes", false, "skip the confirmation prompt")
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		var ids []secrets.KeyID
		for _, text := range args {
			id, ok := secrets.ParseKeyID(text)
			if !ok {
				return usageError{fmt.Errorf("%q is not the identifier of a key: 16 hexadecimal digits", text)}
			}
			ids = append(ids, id)
		}
		if !*yes {
			if err := requireTerminal(cmd, "--yes"); err != nil {
				return err
			}
		}
		return withSecrets(cmd, load, func(keys *secrets.Keyring, s *store.Store) error {
			known, err := s.SecretKeys(cmd.Context())
			if err != nil {
				return err
			}
			for _, id := range ids {
				if !slices.Contains(known, id) {
					return fmt.Errorf("no secret in the database needs the key %s", id)
				}
				if keys.Has(id) {
					return fmt.Errorf("the key %s is not lost: it is in the secrets-key-file", id)
				}
			}
			if !*yes {
				if confirmed, err := askYesNo(cmd, "Give up the secrets that these keys have encrypted?"); err != nil {
					return err
				} else if !confirmed {
					return errors.New("canceled: nothing was changed")
				}
			}
			if err := s.ForgetSecretKeys(cmd.Context(), ids...); err != nil {
				return err
			}
			return out.print(cmd, map[string]any{"forgotten": args}, func(w io.Writer) {
				fmt.Fprintf(w, "Forgot %s. Rotate the secrets of all webhooks.\n", atrium.Count(len(ids), "key", "keys"))
			})
		})
	})
	return cmd
}

// withSecrets calls f with the keys of the settings, nil for none, and the database, which uses them.
func withSecrets(cmd *cobra.Command, load func(io.Writer) (config.Config, error), f func(*secrets.Keyring, *store.Store) error) (err error) {
	if err := requireLocal(cmd); err != nil {
		return err
	}
	settings, err := load(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	keys, err := secrets.Load(settings.SecretsKeyFile)
	if err != nil {
		return fmt.Errorf("secrets-key-file: %w", err)
	}
	if err := requireDatabase(settings); err != nil {
		return err
	}
	s, err := openStore(cmd.Context(), settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if _, err := s.Migrate(cmd.Context()); err != nil {
		return fmt.Errorf("migrate %s: %w", config.Redact(settings.Database), err)
	}
	s.UseSecrets(keys)
	return f(keys, s)
}
