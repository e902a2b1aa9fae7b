package entries

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"atrium"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

const selectSummaryTemplates = "SELECT source, type, template FROM summary_templates WHERE tenant_id = $1 ORDER BY source, type"

func findSummaryTemplates(query kernel.QueryFunc, tenant atrium.TenantID) (all atrium.SummaryTemplates, err error) {
	err = query(selectSummaryTemplates, engine.Args{kernel.IDArg(tenant)}, func(r engine.Row) error {
		all = append(all, atrium.SummaryTemplate{Source: r.Text(0), Type: r.Text(1), Template: r.Text(2)})
		return nil
	})
	return all, err
}

// SummaryTemplates returns the templates of a tenant, at most atrium.MaxSummaryTemplates, by source and type.
func (s *Store) SummaryTemplates(ctx context.Context, tenant atrium.TenantID) (atrium.SummaryTemplates, error) {
	return findSummaryTemplates(s.db.OutsideTx(ctx), tenant)
}

// PutSummaryTemplate stores a template, instead of the one with the same source and type if there is one. It
// returns all templates after the change. It first calls check with those before it, and returns its error. It
// returns Conflict if there are atrium.MaxSummaryTemplates others.
func (s *Store) PutSummaryTemplate(ctx context.Context, c atrium.Change, t atrium.SummaryTemplate, check func(atrium.SummaryTemplates) error) (atrium.SummaryTemplates, error) {
	return s.changeSummaryTemplates(ctx, c, check, func(tx *kernel.Mutation, all atrium.SummaryTemplates) (atrium.SummaryTemplates, error) {
		i := all.Index(t.Source, t.Type)
		switch {
		case i < 0 && len(all) >= atrium.MaxSummaryTemplates:
			return all, atrium.Errorf(atrium.CodeConflict, "There are %d summary templates, the maximum. Delete one first.", len(all))
		case i < 0:
			tx.Record("summary_template.create", string(c.TenantID), nil, summaryFields(&t))
			_, err := tx.Exec("INSERT INTO summary_templates (tenant_id, source, type, template) VALUES ($1, $2, $3, $4)",
				kernel.IDArg(c.TenantID), t.Source, t.Type, t.Template)
			all = append(all, t)
			slices.SortFunc(all, compareTemplates)
			return all, err
		case all[i] == t:
			return all, nil
		}
		tx.Record("summary_template.update", string(c.TenantID), summaryFields(&all[i]), summaryFields(&t))
		_, err := tx.Exec("UPDATE summary_templates SET template = $1 WHERE tenant_id = $2 AND source = $3 AND type = $4",
			t.Template, kernel.IDArg(c.TenantID), t.Source, t.Type)
		all[i] = t
		return all, err
	})
}

// DeleteSummaryTemplate deletes the template with a source and a type. It first calls check with all templates,
// and returns its error. It returns NotFound if there is no such template.
func (s *Store) DeleteSummaryTemplate(ctx context.Context, c atrium.Change, source, entryType string, check func(atrium.SummaryTemplates) error) error {
	_, err := s.changeSummaryTemplates(ctx, c, check, func(tx *kernel.Mutation, all atrium.SummaryTemplates) (atrium.SummaryTemplates, error) {
		i := all.Index(source, entryType)
		if i < 0 {
			return all, engine.ErrNoRow
		}
		tx.Record("summary_template.delete", string(c.TenantID), summaryFields(&all[i]), nil)
		_, err := tx.Exec("DELETE FROM summary_templates WHERE tenant_id = $1 AND source = $2 AND type = $3", kernel.IDArg(c.TenantID), source, entryType)
		return all, err
	})
	return err
}

// changeSummaryTemplates calls change with the templates of a tenant, after check. Changes of one tenant wait
// for each other.
func (s *Store) changeSummaryTemplates(ctx context.Context, c atrium.Change, check func(atrium.SummaryTemplates) error,
	change func(*kernel.Mutation, atrium.SummaryTemplates) (atrium.SummaryTemplates, error),
) (atrium.SummaryTemplates, error) {
	changed, _, err := kernel.Mutate(ctx, s.db, c, func(tx *kernel.Mutation) (atrium.SummaryTemplates, error) {
		if err := tx.LockChain(); err != nil {
			return nil, err
		}
		if err := tx.CountSize(tx.Query, "SELECT "+kernel.OctetLength("source", "type", "template")+" FROM summary_templates WHERE tenant_id = $1",
			engine.Args{kernel.IDArg(c.TenantID)}); err != nil {
			return nil, err
		}
		all, err := findSummaryTemplates(tx.Query, c.TenantID)
		if err == nil {
			err = check(all)
		}
		if err != nil {
			return nil, err
		}
		return change(tx, all)
	})
	return changed, err
}

func compareTemplates(a, b atrium.SummaryTemplate) int {
	return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Type, b.Type))
}

// summaryFields returns a template for the audit log, as the API shows it. It is one field: records of changes
// leave out fields that stay the same.
func summaryFields(t *atrium.SummaryTemplate) kernel.Fields {
	shown := map[string]any{"source": t.Source, "template": t.Template}
	if t.Type != "" {
		shown["type"] = t.Type
	}
	return kernel.Fields{"summaryTemplate": shown}
}
