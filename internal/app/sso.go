package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"atrium/internal/auth"
	"atrium/internal/config"
	"atrium/internal/console"
	"atrium/internal/sso"
	"atrium/internal/store"
)

// checkClientSecret returns an error unless the client secret of the settings can be read, or there is none. It
// logs a warning if other users can read it too.
func checkClientSecret(c Config) error {
	file := c.Settings.OIDCClientSecretFile
	if file == "" {
		return nil
	}
	if _, err := readClientSecret(file); err != nil {
		return err
	}
	if info, err := os.Stat(file); err == nil && othersMayUse(info) {
		c.Log.Warn("other users can read the client secret: run chmod 600", "file", file, "mode", info.Mode().Perm().String())
	}
	return nil
}

// newSingleSignOn returns the sign-in through the identity provider of the settings, nil without one. It asks the
// provider for nothing: a provider that is away does not stop the server. The database must be migrated.
func newSingleSignOn(ctx context.Context, c Config, failures *auth.Failures) (*console.SingleSignOn, error) {
	if c.Metrics != nil {
		c.Metrics.ExpectSignIns(console.SSOResults())
	}
	if c.Settings.OIDCIssuer == "" {
		return nil, nil
	}
	key, err := c.Store.Secret(ctx, store.SignInKey)
	if err != nil {
		return nil, fmt.Errorf("read the key of sign-ins: %w", err)
	}
	seal, err := sso.NewSeal(key, c.Settings.OIDCIssuer, c.Settings.OIDCClientID)
	if err != nil {
		return nil, err
	}
	signOn := &console.SingleSignOn{
		Provider: newProvider(c.Settings, c.Store.Now), People: auth.NewPeople(c.Store, failures), Seal: seal,
		Label: c.Settings.OIDCLabel, Public: c.Settings.PublicURL, Log: c.Log,
	}
	if c.Metrics != nil {
		signOn.Count = c.Metrics.SignIn
	}
	return signOn, nil
}

// newProvider returns the identity provider of the settings, which must have one. now is the clock of the service.
func newProvider(c config.Config, now func() time.Time) *sso.Provider {
	return sso.New(sso.Config{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: func() (string, error) { return readClientSecret(c.OIDCClientSecretFile) },
		RedirectURL: c.PublicURL + console.CallbackPath, Scopes: strings.Fields(c.OIDCScopes), GroupsClaim: c.OIDCGroupsClaim, Now: now,
	})
}

// maxClientSecret is the maximum size in bytes of the file with the client secret.
const maxClientSecret = 4 << 10

// readClientSecret returns the single line of a file. Its errors do not have the content.
func readClientSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("oidc-client-secret-file: %w", err)
	}
	defer func() { _ = file.Close() }()
	b, err := io.ReadAll(io.LimitReader(file, maxClientSecret+1))
	secret := strings.TrimRight(string(b), "\r\n")
	switch {
	case err != nil:
	case len(b) > maxClientSecret:
		err = errors.New("is too long")
	case secret == "":
		err = errors.New("is empty")
	case strings.ContainsAny(secret, "\r\n\x00"):
		err = errors.New("has more than one line")
	}
	if err != nil {
		return "", fmt.Errorf("oidc-client-secret-file: %s %w", path, err)
	}
	return secret, nil
}
