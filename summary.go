package atrium

import "slices"

// A SummaryTemplate says how a line about an entry is made of its payload; package summary has the syntax.
type SummaryTemplate struct {
	Source   string
	Type     string // "" for all types of the source that have no template
	Template string
}

// Limits of summaries.
const (
	MaxSummaryTemplates = 200  // of a tenant
	MaxSummaryTemplate  = 1000 // code points of a template
	MaxSummaryPointers  = 20   // of a template
	MaxSummary          = 200  // code points of a summary
)

// SummaryTemplates are the templates of a tenant, by source and type. No two have the same source and type.
type SummaryTemplates []SummaryTemplate

// Index returns the index of the template with a source and a type, or -1.
func (all SummaryTemplates) Index(source, entryType string) int {
	return slices.IndexFunc(all, func(t SummaryTemplate) bool { return t.Source == source && t.Type == entryType })
}
