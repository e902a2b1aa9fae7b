package atrium

// A Move is a completed move of entries from one account to another.
type Move struct {
	ID        MoveID
	TenantID  TenantID
	From, To  AccountID // not equal; From is the account whose timeline had the entries
	Rule      []byte    // the rule as the client sent it, a JSON object; nil for a move of one entry
	Moved     int64     // number of entries moved
	CreatedAt Time
	UndoneAt  *Time // nil if it was not undone
}

// A MoveRule selects the entries that match all of its fields.
type MoveRule struct {
	Source, Type  string // "" matches every entry
	ClaimedName   string // compared in canonical form; "" matches every entry
	ClaimedDomain string // compared in canonical form; "" matches every entry
	Pointer       string // a JSON Pointer (RFC 6901) into the payload; "" matches every entry
	Equals        []byte // the JSON scalar at Pointer, compared by value
	Given         []byte // the rule as the client sent it, a JSON object
}

// A MoveRequest moves the entries that a rule selects.
type MoveRequest struct {
	From  AccountID // "" for the unattributed account
	To    AccountID
	Rule  MoveRule
	After *Position // start after this position in the timeline of From; nil for the first entry
	Limit int       // maximum number of entries to move, 1 to MaxMoved
}

// MaxMoved is the maximum number of entries of a move.
const MaxMoved = 1000

// A MoveReport is the result of a MoveRequest.
type MoveReport struct {
	Move  *Move     // nil if no entry was moved
	Moved int64     // number of entries moved, or in a dry run, that would be moved
	Next  *Position // where the next request continues; nil if all entries were examined
}

// An UndoReport is the result of undoing a move.
type UndoReport struct {
	Move     Move
	Restored int64 // entries moved back
	Skipped  int64 // entries not moved back: they were moved again, or one of the accounts no longer exists
}
