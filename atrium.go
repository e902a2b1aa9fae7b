// Package atrium defines the domain model of the service: its types and their
// rules. It performs no I/O. All other packages build on it.
//
// A [Tenant] owns its data and shares none of it. An [APIKey] authorizes its
// holder to act for one tenant, or as an operator, within its [Scopes].
//
// An [Account] is an organization, identified by its domain. A [Prospect] is a
// person linked to accounts. An [Entry] is one activity that an upstream system
// reported. Its account is determined once, when it is recorded, and it keeps
// the sender's [Claim].
//
// A [Receiver] turns the webhooks of other systems into entries. An [Event]
// reports a change to a tenant's data, and a [Webhook] sends events to an
// endpoint: each one is a [Delivery].
//
// A [Page] is a document of a [Brand]. It has audiences, and each [Audience]
// has a history of immutable [Version] values.
//
// Identifiers are typed ([AccountID], [PageID] and so on), instants are
// [Time], and every failure that a client may see is an [Error] with a [Code].
package atrium
