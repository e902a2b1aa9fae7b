package atrium

// Bounds of a MostActiveQuery.
const (
	MaxMostActiveDays    = 31      // of its range
	MaxMostActiveEntries = 100_000 // that it reads
)

// A MostActiveQuery asks for the accounts of a tenant with the most entries, by the time of storage
// (Entry.CreatedAt).
type MostActiveQuery struct {
	Since        Time
	Source, Type string // of the entries to count; "" for all
	MaxAccounts  int    // at most MaxListedIDs
	MaxEntries   int    // to read, counted or not, the newest first
}

// MostActive are the accounts with the most entries.
type MostActive struct {
	// CountedSince is the start of the range, or later if the range has more entries than the query may
	// read: about the time of the oldest one that was read.
	CountedSince Time

	Entries  int64            // of all accounts that could be listed
	Accounts []AccountEntries // most entries first, then by identifier
}

// An AccountEntries is an account with its number of entries.
type AccountEntries struct {
	Account
	Entries int64
}
