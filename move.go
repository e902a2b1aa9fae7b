package atrium

// A Move took entries from one account to another, and may have been undone.
type Move struct {
	ID        MoveID
	TenantID  TenantID
	From, To  AccountID // different ones; From is what the entries were shown under
	Rule      []byte    // which entries it took, as a JSON object and as it was given; nil if somebody chose the entry
	Moved     int64     // how many it took
	CreatedAt Time
	UndoneAt  *Time
}

// A MoveRule says which entries a move takes: those of which all that it gives holds.
type MoveRule struct {
	ClaimedName   string // compared in its canonical form; "" for any, or none
	ClaimedDomain string // compared in its canonical form; "" for any, or none
	Pointer       string // a JSON Pointer (RFC 6901) into the payload; "" for none
	Equals        []byte // the JSON scalar that is there, compared by value
	Given         []byte // all of this as it was given, a JSON object
}

// A MoveRequest asks for a move of the entries that a rule says.
type MoveRequest struct {
	From  AccountID // "" for the unattributed account
	To    AccountID
	Rule  MoveRule
	After *Position // the place in the timeline of From behind which entries are looked at; nil for the first
	Limit int       // how many are moved at most; 1 to MaxMoved
}

// MaxMoved is how many entries one move takes at most.
const MaxMoved = 1000

// A MoveReport is what came of a MoveRequest.
type MoveReport struct {
	Move  *Move     // nil if there was nothing to move
	Moved int64     // how many were moved, or would be
	Next  *Position // where to go on; nil if all entries were looked at
}

// An UndoReport is what came of undoing a move.
type UndoReport struct {
	Move     Move
	Restored int64 // how many entries went back to where they were
	Skipped  int64 // how many were left, because they were moved again or one of the accounts is gone
}
