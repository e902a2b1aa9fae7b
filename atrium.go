// Package atrium is the vocabulary of the service: plain types and their
// rules, with no I/O. Everything else in this module speaks in these words.
//
// A [Tenant] owns everything below it; nothing is shared between two of them.
// An [APIKey] lets one caller act for one tenant, within its [Scopes].
//
// An [Account] is an organization known by its domain. [Prospect] values are
// people linked to accounts. An [Entry] is one piece of activity that an
// upstream system reported: which account it goes to is decided once, when it
// is recorded, and what the sender claimed is kept with it as [Claim].
//
// A [Page] is a published document of a brand. It has audiences, and each
// [Audience] has a history of immutable [Version] values.
//
// Identifiers are typed ([AccountID], [PageID] and so on), instants are
// [Time], and every failure that a caller may see is an [Error] with a [Code].
package atrium
