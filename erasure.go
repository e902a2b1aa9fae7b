package atrium

import "slices"

// An ErasureRule selects what an erasure erases. It contains personal data: it is stored only while the
// erasure runs.
//
// An entry is selected if at least one field other than ProspectEmail is set and it matches all of those. A
// prospect is selected if it has the email address. A delivery in quarantine is not an entry yet: it is selected if the
// rule has only Text and TextContains, and its body, its query or a header matches them (HasTextsOnly).
type ErasureRule struct {
	MoveRule                // Given is not used
	Text          string    // any string in the payload, member names included, ignoring case; "" matches every entry
	TextContains  string    // part of such a string, ignoring case; "" matches every entry
	EntryIDs      []EntryID // at most MaxErasureEntries, of which the entry has one; none matches every entry
	ProspectEmail string    // ignoring case; "" selects no prospect
}

// MinTextContains is the minimum length of TextContains in characters.
const MinTextContains = 3

// MaxErasureEntries is the maximum number of EntryIDs.
const MaxErasureEntries = 100

// HasEntries reports whether the rule selects entries.
func (r *ErasureRule) HasEntries() bool {
	return r.Text != "" || r.TextContains != "" || len(r.EntryIDs) > 0 || r.Pointer != "" || r.ClaimedName != "" || r.ClaimedDomain != ""
}

// HasTextsOnly reports whether the rule selects entries by their texts alone.
func (r *ErasureRule) HasTextsOnly() bool {
	return (r.Text != "" || r.TextContains != "") && len(r.EntryIDs) == 0 && r.Pointer == "" && r.ClaimedName == "" && r.ClaimedDomain == ""
}

// Conditions returns the names of the conditions of the rule, for the audit log.
func (r *ErasureRule) Conditions() (names []string) {
	for name, set := range map[string]bool{
		"text": r.Text != "", "textContains": r.TextContains != "", "accountLogIds": len(r.EntryIDs) > 0, "payload": r.Pointer != "",
		"claimedName": r.ClaimedName != "", "claimedDomain": r.ClaimedDomain != "", "prospectEmail": r.ProspectEmail != "",
	} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// An ErasureRequest erases the entries and prospects of a person.
type ErasureRequest struct {
	AccountID AccountID // only entries that it has, and prospects linked to it; "" for all
	Rule      ErasureRule
}

// An Erasure is the erasure of a person's entries and prospects, which a background job performs.
type Erasure struct {
	ID          ErasureID
	TenantID    TenantID
	AccountID   AccountID // "" for all accounts
	Entries     int64     // erased so far
	Prospects   int64     // erased so far
	Quarantined int64     // deliveries in quarantine that were erased so far
	CreatedAt   Time
	CompletedAt *Time // when nothing of it was left in the database or its files; nil while it runs
}

// A Match is an entry, a prospect or a delivery in quarantine that a rule selects. It has one of the three
// identifiers.
type Match struct {
	EntryID       EntryID
	ProspectID    ProspectID
	QuarantinedID QuarantinedID
	ReceiverID    ReceiverID // of a delivery
	AccountID     AccountID  // that has the entry
	CreatedAt     Time       // of an entry, or when a delivery was received
	Source        string     // of an entry
	Type          string     // of an entry
	Name, Email   *string    // of a prospect; nil for none
}

// A PersonExport counts what an export of a person contained.
type PersonExport struct {
	Prospects    int64
	Entries      int64
	Moves        int64 // whose rules moved one of the entries, or contain a value of the rule
	AuditRecords int64 // about these prospects and moves
	Quarantined  int64 // deliveries in quarantine
}

// MaxErasures is the maximum number of erasures of a tenant that run or wait.
const MaxErasures = 100
