package atrium

import "errors"

// UnattributedDomain is the domain of the account that gets a tenant's entries whose claim
// identifies no account. The top-level domain is reserved (RFC 2606 section 2), so no
// organization can have it.
const UnattributedDomain = "unattributed.invalid"

// An Account is an organization, unique in its tenant by its canonical domain.
type Account struct {
	ID               AccountID
	TenantID         TenantID
	Domain           string // canonical, never empty
	Name             string // "" if it has none
	CreatedAt        Time
	UpdatedAt        Time  // when the account itself last changed; entries do not count
	LatestActivityAt *Time // when its newest entry was recorded
}

// MaxMerged is the maximum number of accounts merged into one account, including
// its earlier domains.
const MaxMerged = 100

// A MergedAccount is an account that was merged into another one, or an earlier
// domain of an account, which got its own identifier when the domain changed.
type MergedAccount struct {
	ID         AccountID
	Domain     string
	Name       string    // "" if it has none
	MergedInto AccountID // the direct target, which may be merged itself
}

// An AccountDetail is an account that is not merged into another one, with its
// merged accounts and its prospects.
type AccountDetail struct {
	Account

	// Merged has up to MaxMerged accounts, ordered by identifier. If MoreMerged is true, their
	// domains are too large to hold in memory: Merged is nil, and EachMerged reads them.
	Merged     []MergedAccount
	MoreMerged bool

	// Prospects are linked to the account or to accounts merged into it. They are ordered by
	// creation time, then by identifier. If More is true, there are too many to hold in memory:
	// Prospects is nil, and EachProspect reads them.
	Prospects []Prospect
	More      bool

	// Stream implements EachProspect if More is true, and StreamMerged implements EachMerged if
	// MoreMerged is true. They are nil if no read transaction is open.
	Stream       func(each func(*Prospect) error) error
	StreamMerged func(each func(*MergedAccount) error) error
}

// errNoStream is the error of EachProspect and EachMerged if they need a read transaction and
// none is open.
var errNoStream = errors.New("the account is too large to read outside of a transaction")

// ErrPartial is returned for an account whose prospects or merged accounts are too large to hold
// in memory.
var ErrPartial = errors.New("the account is too large to hold in memory")

// Partial reports whether Prospects or Merged is missing because it is too large to hold in memory.
func (d *AccountDetail) Partial() bool { return d.More || d.MoreMerged }

// EachProspect calls each for every linked prospect, in order, until it returns an error.
// EachProspect can be called several times. each must not retain the prospect.
func (d *AccountDetail) EachProspect(each func(*Prospect) error) error {
	return eachOf(d.Prospects, d.More, d.Stream, each)
}

// EachMerged is EachProspect for the merged accounts.
func (d *AccountDetail) EachMerged(each func(*MergedAccount) error) error {
	return eachOf(d.Merged, d.MoreMerged, d.StreamMerged, each)
}

// eachOf calls each for every element of held, or if more, for every element of stream.
func eachOf[T any](held []T, more bool, stream func(func(*T) error) error, each func(*T) error) error {
	switch {
	case !more:
		for i := range held {
			if err := each(&held[i]); err != nil {
				return err
			}
		}
		return nil
	case stream == nil:
		return errNoStream
	}
	return stream(each)
}

// An AccountUpdate is a change to an account.
type AccountUpdate struct {
	Name   *string // "" removes the name; nil leaves it unchanged
	Domain string  // in any spelling; "" leaves it unchanged
}

// MaxLinks is the maximum number of accounts that a prospect is linked to. Links that
// result from merges do not count.
const MaxLinks = 1000

// A Prospect is a person linked to up to MaxLinks accounts. Each text is nil if it is
// unknown, and empty if the sender gave an empty text.
type Prospect struct {
	ID                 ProspectID
	TenantID           TenantID
	Name               *string
	Email              *string
	Domain             *string
	Slug               *string
	PhoneNumber        *string
	LinkedinProfileURL *string
	CreatedAt          Time
	UpdatedAt          Time
}

// An AccountFilter selects the accounts that match all of its fields. Zero fields match
// every account.
type AccountFilter struct {
	IDs         []AccountID // of accounts, or of accounts merged into them; at most MaxListedIDs
	Domain      string      // in any spelling
	NamePrefix  string      // ignores case
	Words       []string    // search words (canonical.QueryWords), each a prefix of a word of the account
	ActiveSince *Time       // the latest activity is at this time or later
}

// MaxListedIDs is the maximum number of identifiers that select the items of a list.
const MaxListedIDs = 100

// An AccountOrder is the order of a list of accounts.
type AccountOrder string

// The orders of accounts. Equal accounts are ordered by identifier.
const (
	AccountsNewest   AccountOrder = "newest"   // by creation time, newest first
	AccountsActivity AccountOrder = "activity" // by the minute of the latest activity, newest first
	AccountsName     AccountOrder = "name"     // by name, in code point order; accounts without a name last, by domain
	AccountsWord     AccountOrder = "word"     // by the word that matches the longest of AccountFilter.Words
)

// A ProspectFilter selects the prospects that match all of its fields. Zero fields match
// every prospect.
type ProspectFilter struct {
	AccountID AccountID // the prospect is linked to the account
	Words     []string  // search words (canonical.QueryWords), each a prefix of a word of the prospect
}

// A Merge records that an account was merged directly into another one.
type Merge struct {
	AccountID AccountID
	Into      AccountID
}

// A LinkedProspect is a prospect with the accounts that it is linked to. Links that result
// from merges are not included.
type LinkedProspect struct {
	Prospect
	AccountIDs []AccountID // sorted
	More       bool        // AccountIDs was truncated
}
