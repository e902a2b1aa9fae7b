package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"atrium"
	"atrium/internal/store"
)

type tenantView struct {
	ID        atrium.TenantID `json:"tenantId"`
	Name      string          `json:"name"`
	CreatedAt atrium.Time     `json:"createdAt"`
}

func newTenants() *cobra.Command {
	cmd := &cobra.Command{Use: "tenants", Short: "Make and list tenants"}
	cmd.AddCommand(newTenantsCreate(), newTenantsList())
	return cmd
}

func newTenantsCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create", Short: "Make a tenant", Args: cobra.NoArgs,
		Example: "  atrium tenants create --name 'Example Corp'\n  atrium tenants create --name 'Example Corp' --id tenant_… --database postgres://atrium@db.internal/atrium",
	}
	name := cmd.Flags().String("name", "", "`name` of the tenant, 1 to 255 characters")
	id := cmd.Flags().String("id", "", "`ID` that the tenant has in another database and keeps here; made if not given")
	_ = cmd.MarkFlagRequired("name")
	database, out := databaseFlag(cmd), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		if err := checkName(*name); err != nil {
			return err
		}
		tenant := atrium.NewID[atrium.TenantID]()
		if *id != "" {
			var ok bool
			if tenant, ok = atrium.ParseID[atrium.TenantID](*id); !ok {
				return usageError{errors.New("--id must be tenant_ and 26 characters of a-z0-9")}
			}
		}
		return withStore(cmd.Context(), database, func(s *store.Store) error {
			t, _, err := s.AdoptTenant(cmd.Context(), atrium.CommandLine(atrium.OperatorChain), tenant, *name)
			if err != nil {
				return err
			}
			return printTenants(cmd, out, tenantView(t), []atrium.Tenant{t})
		})
	})
	return cmd
}

func newTenantsList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List all tenants, newest first", Args: cobra.NoArgs}
	database, out := databaseFlag(cmd), outputFlag(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		return withStore(cmd.Context(), database, func(s *store.Store) error {
			all, err := allTenants(cmd.Context(), s)
			if err != nil {
				return err
			}
			views := make([]tenantView, len(all))
			for i, t := range all {
				views[i] = tenantView(t)
			}
			return printTenants(cmd, out, views, all)
		})
	})
	return cmd
}

func allTenants(ctx context.Context, s *store.Store) (all []atrium.Tenant, err error) {
	for more := true; more; {
		var part []atrium.Tenant
		var after *atrium.Position
		if len(all) > 0 {
			after = atrium.PositionAt(0, all[len(all)-1].ID)
		}
		if part, more, err = s.Tenants(ctx, after, listedAtOnce); err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	return all, nil
}

func printTenants(cmd *cobra.Command, out *output, data any, all []atrium.Tenant) error {
	return out.print(cmd, data, func(w io.Writer) {
		fmt.Fprintln(w, "TENANT\tNAME\tCREATED")
		for _, t := range all {
			fmt.Fprintf(w, "%s\t%s\t%s\n", t.ID, cell(t.Name), t.CreatedAt)
		}
	})
}
