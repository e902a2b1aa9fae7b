package atrium

import "time"

// A RetentionRule says how long entries are stored. An entry matches if it has the source and the type
// of the rule.
type RetentionRule struct {
	Source string // "" matches every source
	Type   string // "" matches every type
	Days   int64  // of 24 hours, counted from CreatedAt; 1 to MaxRetentionDays
}

// Limits of the retention rules of a tenant.
const (
	MaxRetentionRules = 50
	MaxRetentionDays  = 36_500
)

// RetentionRules are the rules of a tenant. No two have the same source and type. One rule applies to
// an entry, the most specific one that it matches: first one with source and type, then one with only
// the source, then one with only the type, then one with neither. Without a match, the entry is never
// deleted.
type RetentionRules []RetentionRule

// Find returns the index of the rule that applies to an entry, or -1.
func (rules RetentionRules) Find(source, entryType string) int {
	best, found := -1, -1
	for i := range rules {
		r := &rules[i]
		if r.Source != "" && r.Source != source || r.Type != "" && r.Type != entryType {
			continue
		}
		rank := 0
		if r.Source != "" {
			rank += 2
		}
		if r.Type != "" {
			rank++
		}
		if rank > best {
			best, found = rank, i
		}
	}
	return found
}

// Expired returns the index of the rule by which an entry is deleted at a time, or -1.
func (rules RetentionRules) Expired(source, entryType string, created, at Time) int {
	i := rules.Find(source, entryType)
	if i < 0 || created > at-Time(rules[i].Days)*day {
		return -1
	}
	return i
}

const day = Time(24 * time.Hour / time.Microsecond)

// A Retention is the retention rules of a tenant.
type Retention struct {
	TenantID  TenantID
	Rules     RetentionRules
	UpdatedAt *Time // nil if there never was a rule
}

// A RetentionCheck has what rules would delete among some entries.
type RetentionCheck struct {
	Examined int
	Expired  []int // number of entries, by the index of the rule
}
