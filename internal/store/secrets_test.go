package store_test

import (
	"path/filepath"
	"slices"
	"testing"

	"atrium"
	"atrium/internal/secrets"
	"atrium/internal/store"
	"atrium/internal/store/engine"
	"atrium/internal/store/register"
)

// keyring returns the keys of a new file with n keys, and the path of the file.
func keyring(t *testing.T, n int) (*secrets.Keyring, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	for range n {
		if _, _, err := secrets.AddKey(path, false); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := secrets.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys, path
}

func TestProcessWithoutAKeyOfStoredSecretsStoresNone(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	check := func(keys *secrets.Keyring, want ...secrets.KeyID) {
		t.Helper()
		s.UseSecrets(keys)
		for range 2 {
			if missing, err := s.MissingSecretKeys(t.Context()); err != nil || !slices.Equal(missing, want) {
				t.Errorf("missing: %v, %v, want %v", missing, err, want)
			}
		}
	}
	at := secrets.RowRef("webhook_secrets", "tenant_a", []byte{1})
	check(nil)
	first, path := keyring(t, 1)
	check(first)
	if _, err := first.Seal(at, nil); err != nil {
		t.Error(err)
	}
	wrong, _ := keyring(t, 1)
	check(wrong, first.Keys()...)
	if _, err := wrong.Seal(at, nil); atrium.CodeOf(err) != atrium.CodeConflict {
		t.Errorf("a process with another file can store a secret: %v", err)
	}
	check(nil, first.Keys()...)
	check(first) // the other file is not recorded: this one is not missing a key

	if _, _, err := secrets.AddKey(path, false); err != nil {
		t.Fatal(err)
	}
	both, err := secrets.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	check(both)
	check(first, both.Keys()[0])
	if known, err := s.SecretKeys(t.Context()); err != nil || len(known) != 2 {
		t.Errorf("known: %v, %v", known, err)
	}
}

func TestRewrapEncryptsTheSecretsOfWebhooksAndReceivers(t *testing.T) {
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "atrium.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.FinishUpgrade(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, path := keyring(t, 1)
	use := func(keys *secrets.Keyring) {
		t.Helper()
		s.UseSecrets(keys)
		if missing, err := s.MissingSecretKeys(t.Context()); err != nil || len(missing) > 0 {
			t.Fatal(missing, err)
		}
	}
	use(keys)
	tenant, _, err := s.CreateTenant(t.Context(), atrium.CommandLine(atrium.OperatorChain), "Tenant")
	if err != nil {
		t.Fatal(err)
	}
	w := atrium.Webhook{ID: atrium.NewID[atrium.WebhookID](), WebhookSpec: atrium.WebhookSpec{URL: "https://example.com/", Format: atrium.FormatStandard}}
	if _, _, err := s.CreateWebhook(t.Context(), atrium.CommandLine(tenant.ID), w, []atrium.WebhookSecret{
		{ID: atrium.NewID[atrium.WebhookSecretID](), Kind: atrium.SecretSigning, Value: []byte("secret")},
	}); err != nil {
		t.Fatal(err)
	}
	r := atrium.Receiver{ID: atrium.NewID[atrium.ReceiverID](), ReceiverSpec: atrium.ReceiverSpec{Provider: atrium.ProviderGitHub}}
	if _, _, err := s.CreateReceiver(t.Context(), atrium.CommandLine(tenant.ID), r, atrium.ReceiverSecret{ID: atrium.NewID[atrium.ReceiverSecretID](), Value: []byte("secret")}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := secrets.AddKey(path, false); err != nil {
		t.Fatal(err)
	}
	if keys, err = secrets.Load(path); err != nil {
		t.Fatal(err)
	}
	use(keys)
	for _, want := range []store.Rewrapping{{Secrets: 2, Rewrapped: 2}, {Secrets: 2}} {
		if done, err := s.Rewrap(t.Context()); err != nil || done != want {
			t.Errorf("%+v, %v, want %+v", done, err, want)
		}
		_, valid, err := s.FindReceiver(t.Context(), r.ID)
		if err != nil || len(valid) != 1 || string(valid[0].Value) != "secret" {
			t.Errorf("%d secrets of the receiver, %v", len(valid), err)
		}
		values, err := s.WebhookSecrets(t.Context(), tenant.ID, w.ID)
		if err != nil || len(values) != 1 || string(values[0].Value) != "secret" {
			t.Errorf("%+v, %v", values, err)
		}
	}
	if needed, err := s.SecretKeys(t.Context()); err != nil || !slices.Equal(needed, keys.Keys()[:1]) {
		t.Errorf("the database needs %v, %v, want the first of %v", needed, err, keys.Keys())
	}
}

// Encrypted values are bound to the key of their row, as bytes.
func TestKeysOfTablesWithSecretsAreBinary(t *testing.T) {
	found := 0
	for _, table := range register.Tables() {
		if table.Sealed == "" {
			continue
		}
		found++
		for _, name := range append(slices.Clone(table.Key), table.Sealed) {
			i := slices.IndexFunc(table.Columns, func(c register.Column) bool { return c.Name == name })
			if i < 0 || table.Columns[i].Type != engine.Bytes || name == table.Sealed && table.Columns[i].Copying != register.Uncompared {
				t.Errorf("%s.%s is no binary column, or is compared although copies can encrypt it again", table.Name, name)
			}
		}
	}
	if found == 0 {
		t.Error("no table has secrets")
	}
}
