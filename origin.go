package atrium

// A Rule is the rule that chose the account of an entry from its claim. Its numbers are stored.
type Rule int

// The rules, in the order in which they are tried.
const (
	RuleNotRecorded  Rule = 0 // an import stored the entry, or an earlier release
	RuleAccountID    Rule = 1 // the account with the claimed identifier
	RuleDomain       Rule = 2 // the account with the claimed domain, created if missing
	RuleName         Rule = 3 // the only account with the claimed name
	RuleUnattributed Rule = 4 // the unattributed account, because no other rule applied
)

// String returns the name of the rule in the management API, "" for RuleNotRecorded and for a rule
// of a later release.
func (r Rule) String() string {
	names := [...]string{"", "accountId", "domain", "name", "unattributed"}
	if r < 0 || int(r) >= len(names) {
		return ""
	}
	return names[r]
}

// ActorImport is the Origin.SubmittedBy of imported entries.
const ActorImport = "import"

// An Origin is how an entry came into the database and how its account was chosen. Its fields
// are zero where they were not recorded: for entries of earlier releases.
type Origin struct {
	Rule        Rule
	SubmittedBy string // the identifier of a key or receiver, ActorCommandLine or ActorImport
	RequestID   string // of the request that stored the entry, not of replays
}

// An EntryFilter selects the entries of a tenant that match all of its fields. Zero fields match
// every entry.
type EntryFilter struct {
	TimelineFilter
	IdempotencyKey string
	AccountID      AccountID // the account, or one merged into it, has the entry now
	Unattributed   bool      // the unattributed account has the entry now
	ClaimedDomain  string    // in any spelling
	ClaimedName    string    // ignoring case
}
