package doctor

import (
	"context"
	"slices"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store"
)

// secretKeys checks whether the server can decrypt the secrets in the database.
func (d *checkup) secretKeys(ctx context.Context, s *store.Store) {
	const check = "secret keys"
	file := d.Settings.SecretsKeyFile
	keys, err := secrets.Load(file)
	if err != nil {
		d.fail(check, "restore the file from its copy; atrium secrets add-key creates a new one, with which the stored secrets must be created again",
			"secrets-key-file: %v", err)
		return
	}
	needed, err := s.SecretKeys(ctx)
	if err != nil {
		d.fail(check, d.connectFix(), "cannot read which keys the stored secrets need: %s", explain(err))
		return
	}
	missing := slices.DeleteFunc(needed, keys.Has)
	const fix = "set secrets-key-file to the file that has them: backups of the database do not contain it. If they are lost, run atrium secrets forget-key"
	switch {
	case len(missing) > 0 && file == "":
		d.fail(check, fix, "secrets in the database are encrypted with the keys %s, and secrets-key-file is not set", secrets.JoinKeyIDs(missing))
	case len(missing) > 0:
		d.fail(check, fix, "%s lacks the keys %s, with which secrets in the database are encrypted", file, secrets.JoinKeyIDs(missing))
	case file != "":
		d.ok(check, "%s has %s; backups of the database do not contain it: keep a copy elsewhere", file, atrium.Count(len(keys.Keys()), "key", "keys"))
	default:
		d.ok(check, "the database has no encrypted secrets, and secrets-key-file is not set")
	}
}
