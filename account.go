package atrium

import "errors"

// UnattributedDomain is the domain of the account that takes a tenant's
// entries that name no account. The top-level domain is reserved (RFC 2606
// section 2), so no organization can have it.
const UnattributedDomain = "unattributed.invalid"

// An Account is an organization, unique in its tenant by its canonical domain.
type Account struct {
	ID               AccountID
	TenantID         TenantID
	Domain           string // canonical, never empty
	Name             string // "" if it has none
	CreatedAt        Time
	UpdatedAt        Time  // when its own fields last changed; entries do not count
	LatestActivityAt *Time // when its newest entry was recorded
}

// MaxMerged is how many accounts can be merged into one, the domains that it had
// before included.
const MaxMerged = 100

// A MergedAccount is an account that was merged into another one, or a domain that
// an account had before, which has had its own identifier since then.
type MergedAccount struct {
	ID         AccountID
	Domain     string
	Name       string    // "" if it has none
	MergedInto AccountID // directly; this one may be merged into another one itself
}

// An AccountDetail is an account that stands for itself with all that leads to it.
type AccountDetail struct {
	Account

	// Merged are by their identifiers, MaxMerged at most. If MoreMerged is true, their domains
	// are too long to hold in memory together: Merged is nil and only EachMerged has them.
	Merged     []MergedAccount
	MoreMerged bool

	// Prospects are linked to the account or to what was merged into it, ordered by their
	// creation and then their identifier. If More is true there are too many to hold in
	// memory: Prospects is nil and only EachProspect has them.
	Prospects []Prospect
	More      bool

	// Stream is EachProspect where More is true, and StreamMerged is EachMerged where
	// MoreMerged is. They are nil if no read transaction is open.
	Stream       func(each func(*Prospect) error) error
	StreamMerged func(each func(*MergedAccount) error) error
}

// errNoStream reports that EachProspect or EachMerged was called outside of a read transaction.
var errNoStream = errors.New("what is linked to an account or merged into it can be read in a transaction only")

// ErrPartial is returned for an account with more linked prospects, or more bytes of what was
// merged into it, than are held in memory.
var ErrPartial = errors.New("the account is too large to hold in memory")

// Partial reports whether some of the account is not held in memory.
func (d *AccountDetail) Partial() bool { return d.More || d.MoreMerged }

// EachProspect calls each for every linked prospect, in order, until it returns an error.
// It can be called several times. A prospect is valid during the call that gets it.
func (d *AccountDetail) EachProspect(each func(*Prospect) error) error {
	return eachOf(d.Prospects, d.More, d.Stream, each)
}

// EachMerged is EachProspect for what was merged into the account.
func (d *AccountDetail) EachMerged(each func(*MergedAccount) error) error {
	return eachOf(d.Merged, d.MoreMerged, d.StreamMerged, each)
}

// eachOf calls each for all that is held, or for all that stream has if there is more.
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

// An AccountUpdate is what is to be changed of an account.
type AccountUpdate struct {
	Name   *string // "" takes the name away; nil leaves it
	Domain string  // in any spelling; "" leaves it
}

// MaxLinks is how many accounts a prospect can be linked to. Links that follow from
// merges do not count.
const MaxLinks = 1000

// A Prospect is a person linked to accounts, MaxLinks at most. Each of its texts
// is nil when unknown, and may be empty when it was given so.
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

// An AccountFilter says which accounts a list has: those that are all of what it
// says. What is left out says nothing.
type AccountFilter struct {
	Domain      string   // in any spelling
	NamePrefix  string   // what the name begins with, whatever the case
	Words       []string // each begins a word of the account (canonical.Sought)
	ActiveSince *Time    // there was activity then or later
}

// An AccountOrder is an order in which accounts are listed.
type AccountOrder string

// The orders. Where several accounts are equal their identifiers decide.
const (
	AccountsNewest   AccountOrder = "newest"   // by creation, the last first
	AccountsActivity AccountOrder = "activity" // by the minute of the newest activity, the last first
	AccountsName     AccountOrder = "name"     // by name, in the order of its characters; those without one are last, by domain
	AccountsWord     AccountOrder = "word"     // by the word that the longest of AccountFilter.Words begins
)

// A ProspectFilter says which prospects a list has: those that are all of what it
// says. What is left out says nothing.
type ProspectFilter struct {
	AccountID AccountID // the prospect is linked to the account
	Words     []string  // each begins a word of the prospect (canonical.Sought)
}

// A Merge says that an account was merged into another one, directly.
type Merge struct {
	AccountID AccountID
	Into      AccountID
}

// A LinkedProspect is a prospect with the accounts that it is linked to itself, in the
// order of their identifiers: what follows from merging accounts is left out.
type LinkedProspect struct {
	Prospect
	AccountIDs []AccountID
	More       bool // it is linked to others as well; only where AccountIDs is bounded
}
