package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/store"
)

type keyView struct {
	KeyID          atrium.KeyID    `json:"keyId"`
	TenantID       atrium.TenantID `json:"tenantId,omitzero"` // of no tenant: an operator's
	Name           string          `json:"name"`
	Scopes         atrium.Scopes   `json:"scopes"`
	CreatedAt      atrium.Time     `json:"createdAt"`
	ExpiresAt      *atrium.Time    `json:"expiresAt"`
	RevokedAt      *atrium.Time    `json:"revokedAt"`
	PreviousEndsAt *atrium.Time    `json:"previousEndsAt"`
	LastUsedAt     *atrium.Time    `json:"lastUsedAt"`
	Key            string          `json:"key,omitzero"` // only when its secret was just made
}

func viewKey(k atrium.APIKey) keyView {
	return keyView{k.ID, k.TenantID, k.Name, k.Scopes, k.CreatedAt, k.ExpiresAt, k.RevokedAt, k.PreviousEndsAt, k.LastUsedAt, ""}
}

func newKeys() *cobra.Command {
	cmd := &cobra.Command{Use: "keys", Short: "Make, list, rotate and revoke API keys"}
	cmd.AddCommand(newKeysCreate(), newKeysList(), newKeysRotate(), newKeysRevoke())
	return cmd
}

func newKeysCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make an API key",
		Long: `Make an API key for a tenant, or for an operator: that one is of no tenant and
works on all of them, and on the list of tenants itself. The key is shown once and
cannot be shown again. It works at once, on every running server.

The scopes of the external API, which a tenant's key has without --scope, are
` + atrium.ExternalScopes().String() + `.
Those of the management API are
` + atrium.ManageScopes().String() + `;
` + string(atrium.ScopeManage) + ` includes the others, and is what an operator's key has without --scope.`,
		Example: "  atrium keys create --tenant tenant_… --name crm\n  atrium keys create --tenant tenant_… --name website --scope pages:read --expires-in 720h -o json\n  atrium keys create --operator --name platform",
		Args:    cobra.NoArgs,
	}
	owner := ownerFlags(cmd)
	name := cmd.Flags().String("name", "", "`name` of the key, 1 to 255 characters")
	_ = cmd.MarkFlagRequired("name")
	scopes := cmd.Flags().StringSlice("scope", nil, "`scope` of the key; may be repeated")
	expires := cmd.Flags().Duration("expires-in", 0, "`duration` after which it stops working, such as 720h (default never)")
	database, out := databaseFlag(cmd), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		id, err := owner()
		if err != nil {
			return err
		}
		if err := checkName(*name); err != nil {
			return err
		}
		k := atrium.APIKey{Name: *name}
		if k.Scopes, err = parseScopes(*scopes, id); err != nil {
			return err
		}
		if cmd.Flags().Changed("expires-in") {
			if *expires < time.Second {
				return usageError{errors.New("--expires-in must be at least 1s")}
			}
			at := atrium.At(time.Now().Add(*expires))
			k.ExpiresAt = &at
		}
		return withStore(cmd.Context(), database, func(s *store.Store) error {
			key, secret, err := createKey(cmd.Context(), s, id, k)
			if err != nil {
				return err
			}
			return printNewKey(cmd, out, key, secret)
		})
	})
	return cmd
}

// printNewKey shows a key whose secret was just made, for the only time.
func printNewKey(cmd *cobra.Command, out *output, k atrium.APIKey, text string) error {
	view := viewKey(k)
	view.Key = text
	return out.print(cmd, view, func(w io.Writer) {
		fmt.Fprintf(w, "Key\t%s\n\t(shown only now)\nID\t%s\nName\t%s\nScopes\t%s\nExpires\t%s\n",
			text, k.ID, cell(k.Name), k.Scopes, orDash(k.ExpiresAt))
		if k.PreviousEndsAt != nil {
			fmt.Fprintf(w, "Former secret ends\t%s\n", k.PreviousEndsAt)
		}
	})
}

// ownerFlags adds the flags that say whose keys a command works on, and returns what
// gives the tenant once they are read: atrium.OperatorChain for the operators.
func ownerFlags(cmd *cobra.Command) func() (atrium.TenantID, error) {
	tenant := cmd.Flags().String("tenant", "", "`ID` of the tenant")
	operator := cmd.Flags().Bool("operator", false, "an operator's, of no tenant")
	cmd.MarkFlagsOneRequired("tenant", "operator")
	cmd.MarkFlagsMutuallyExclusive("tenant", "operator")
	return func() (atrium.TenantID, error) {
		if *operator {
			return atrium.OperatorChain, nil
		}
		id, err := parseTenant(*tenant)
		if id == atrium.OperatorChain {
			err = fmt.Errorf("there is no tenant %s", id)
		}
		return id, err
	}
}

func parseScopes(given []string, owner atrium.TenantID) (scopes atrium.Scopes, err error) {
	if len(given) == 0 {
		if owner == atrium.OperatorChain {
			return atrium.Scopes{atrium.ScopeManage}, nil
		}
		return atrium.ExternalScopes(), nil
	}
	for _, text := range given {
		scope := atrium.Scope(text)
		if !slices.Contains(atrium.AllScopes(), scope) {
			return nil, usageError{fmt.Errorf("there is no scope %q; the scopes are %s", text, atrium.AllScopes())}
		}
		scopes = append(scopes, scope)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes), nil
}

// createKey makes a key and returns it with its text.
func createKey(ctx context.Context, s *store.Store, owner atrium.TenantID, k atrium.APIKey) (atrium.APIKey, string, error) {
	id, text, hash := auth.NewKey()
	k.ID = id
	k, _, err := s.CreateKey(ctx, atrium.CommandLine(owner), k, hash)
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		err = fmt.Errorf("there is no tenant %s", owner)
	}
	return k, text, err
}

func newKeysList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the keys of a tenant or the operators, newest first", Args: cobra.NoArgs}
	owner, database, out := ownerFlags(cmd), databaseFlag(cmd), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		id, err := owner()
		if err != nil {
			return err
		}
		return withStore(cmd.Context(), database, func(s *store.Store) error {
			if id != atrium.OperatorChain {
				if err := tenantExists(cmd.Context(), s, id); err != nil {
					return err
				}
			}
			keys, err := allKeys(cmd.Context(), s, id)
			if err != nil {
				return err
			}
			views := make([]keyView, len(keys))
			for i, k := range keys {
				views[i] = viewKey(k)
			}
			return out.print(cmd, views, func(w io.Writer) { tableKeys(w, keys) })
		})
	})
	return cmd
}

func allKeys(ctx context.Context, s *store.Store, owner atrium.TenantID) (all []atrium.APIKey, err error) {
	var next *atrium.Position
	for first := true; first || next != nil; first = false {
		var part []atrium.APIKey
		part, next, err = s.Keys(ctx, owner, nil, next, listedAtOnce)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

func tableKeys(w io.Writer, keys []atrium.APIKey) {
	fmt.Fprintln(w, "KEY\tNAME\tSCOPES\tCREATED\tLAST USED\tEXPIRES\tFORMER SECRET ENDS\tREVOKED")
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, cell(k.Name), k.Scopes, k.CreatedAt,
			orDash(k.LastUsedAt), orDash(k.ExpiresAt), orDash(k.PreviousEndsAt), orDash(k.RevokedAt))
	}
}

func tenantExists(ctx context.Context, s *store.Store, id atrium.TenantID) error {
	_, err := s.Tenant(ctx, id)
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		return fmt.Errorf("there is no tenant %s", id)
	}
	return err
}

// listedAtOnce is how many things of a list are read at once.
const listedAtOnce = 500

// defaultGrace is how long a rotated-out secret goes on working.
const defaultGrace = 24 * time.Hour

func newKeysRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rotate KEY_ID",
		Short: "Give a key a new secret",
		Long: `Give a key a new secret and show it, once. The secret that it had goes on working
for the grace, so that whoever holds it can change over without a gap. A key has
two secrets at most: rotating again within the grace ends the oldest. Running
servers refuse a secret that has ended within ` + auth.CacheTime.String() + `.`,
		Example: "  atrium keys rotate key_… --grace 1h\n  atrium keys rotate key_… --grace 0s -o json",
		Args:    cobra.ExactArgs(1),
	}
	grace := cmd.Flags().Duration("grace", defaultGrace, "`duration` for which the former secret still works")
	database, out := databaseFlag(cmd), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		id, err := parseKeyID(args[0])
		if err != nil {
			return err
		}
		if *grace < 0 {
			return usageError{errors.New("--grace must not be negative")}
		}
		return withStore(cmd.Context(), database, func(s *store.Store) error {
			c, err := changeOfKey(cmd.Context(), s, id)
			if err != nil {
				return err
			}
			text, hash := auth.NewSecret(id)
			k, _, err := s.RotateKey(cmd.Context(), c, id, hash, *grace, func(atrium.APIKey) error { return nil })
			if err != nil {
				return err
			}
			return printNewKey(cmd, out, k, text)
		})
	})
	return cmd
}

func parseKeyID(text string) (atrium.KeyID, error) {
	id, ok := atrium.ParseID[atrium.KeyID](text)
	if !ok {
		return "", usageError{fmt.Errorf("%q is not the identifier of a key: atrium keys list shows them", text)}
	}
	return id, nil
}

// changeOfKey returns what a change to a key carries: it is in the chain of the
// tenant that has the key.
func changeOfKey(ctx context.Context, s *store.Store, id atrium.KeyID) (atrium.Change, error) {
	k, _, _, err := s.Key(ctx, id)
	if atrium.CodeOf(err) == atrium.CodeNotFound {
		err = fmt.Errorf("there is no key %s", id)
	}
	return atrium.CommandLine(cmp.Or(k.TenantID, atrium.OperatorChain)), err
}

func newKeysRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke KEY_ID", Short: "End a key for good", Args: cobra.ExactArgs(1),
		Long: "End a key for good. Running servers refuse it within " + auth.CacheTime.String() + ".",
	}
	database, out := databaseFlag(cmd), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		id, err := parseKeyID(args[0])
		if err != nil {
			return err
		}
		return withStore(cmd.Context(), database, func(s *store.Store) error {
			c, err := changeOfKey(cmd.Context(), s, id)
			if err != nil {
				return err
			}
			k, err := s.RevokeKey(cmd.Context(), c, id, func(atrium.APIKey) error { return nil })
			if err != nil {
				return err
			}
			return out.print(cmd, viewKey(k), func(w io.Writer) { tableKeys(w, []atrium.APIKey{k}) })
		})
	})
	return cmd
}
