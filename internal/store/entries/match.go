package entries

import (
	"bytes"
	"slices"

	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store/engine"
	"atrium/internal/store/kernel"
)

// This file compares entries with the rule of a move or the filter of a list, one after the other.

// Limits of one search for matching entries.
const (
	maxMatchEntries = 10_000
	maxMatchBytes   = 4 << 20 // of texts and payloads that are compared; the entry that reaches it is included
	maxBatchBytes   = 1 << 20 // of claims and payloads read at a time, unless one entry has more
)

// A claimRow is what a search compares of an entry. A long domain is left out.
type claimRow struct {
	source, kind              string
	name, domain              string
	domainBytes, payloadBytes int
	resultBytes               int // counted against the limit of the search
}

// A matchedEntry is an entry that a search has found, with its resultBytes.
type matchedEntry = entryRow[int]

func (c *claimRow) domainOmitted() bool { return c.domainBytes > len(c.domain) }

// claimedColumns are the columns of a claimRow, except for resultBytes, which must follow. SQLite reads
// none of the columns after a payload for them.
var claimedColumns = "e.source, e.type, e.claimed_name, " + kernel.InlineOrNull("e.claimed_domain") + ", " + kernel.OctetLength("e.claimed_domain") +
	", octet_length(e.payload), "

func scanClaimed(r engine.Row) claimRow {
	return claimRow{r.Text(3), r.Text(4), r.Text(5), r.Text(6), int(r.Int(7)), int(r.Int(8)), int(r.Int(9))}
}

// A matcher is a parsed rule or filter.
type matcher struct {
	filter       atrium.TimelineFilter
	accounts     map[atrium.AccountID]bool // that may have the entry; nil for any
	name, domain string
	pointer      canonical.Pointer // nil to match any payload
	equals       []byte
	texts        map[string]bool // of which the payload must have one, as canonical.HasText; nil for any
	part         string          // which the payload must have, as canonical.ContainsText; "" for any
}

func newMatcher(rule *atrium.MoveRule) (m matcher, err error) {
	m.filter.Source, m.filter.Type = rule.Source, rule.Type
	if rule.ClaimedName != "" {
		m.name = canonical.Name(rule.ClaimedName)
	}
	if rule.ClaimedDomain != "" {
		m.domain = canonical.Domain(rule.ClaimedDomain)
	}
	if rule.Pointer != "" {
		m.pointer, _ = canonical.ParsePointer(rule.Pointer)
		m.equals, err = canonical.Value(rule.Equals)
	}
	return m, err
}

// matchesRow compares all that was read of an entry.
func (m *matcher) matchesRow(p *entryRow[claimRow]) bool {
	at := atrium.Time(p.position.Key)
	return m.filter.Has(p.value.source, p.value.kind) && (m.filter.Since == nil || at >= *m.filter.Since) && (m.filter.Until == nil || at < *m.filter.Until) &&
		(m.accounts == nil || m.accounts[p.account]) && m.matchesClaim(&p.value)
}

func (m *matcher) matchesClaim(c *claimRow) bool {
	return (m.name == "" || c.name != "" && canonical.Name(c.name) == m.name) && (m.domain == "" || c.domainOmitted() || m.matchesDomain(c.domain))
}

func (m *matcher) matchesDomain(domain string) bool {
	return domain != "" && canonical.Domain(domain) == m.domain
}

// unreadBytes returns how many more bytes of the entry must be read to match it.
func (m *matcher) unreadBytes(c *claimRow) (bytes int) {
	if m.domain != "" && c.domainOmitted() {
		bytes += c.domainBytes
	}
	if m.needsPayload() {
		bytes += c.payloadBytes
	}
	return bytes
}

func (m *matcher) needsPayload() bool { return m.pointer != nil || m.texts != nil || m.part != "" }

func (m *matcher) matchesPayload(payload []byte) bool {
	if m.texts != nil && !canonical.HasText(payload, m.texts) || m.part != "" && !canonical.ContainsText(payload, m.part) {
		return false
	}
	if m.pointer == nil {
		return true
	}
	found := m.pointer.In(payload)
	if found == nil || found[0] == '{' || found[0] == '[' {
		return false
	}
	value, err := canonical.Value(found)
	return err == nil && bytes.Equal(value, m.equals)
}

// matches are the entries that a search has found.
type matches struct {
	entries []matchedEntry
	limit   int // of entries

	bytes, maxBytes int // their resultBytes; the first entry may exceed maxBytes
}

// add adds an entry and reports whether it was within the limits. If not, it is left out.
func (all *matches) add(p *entryRow[claimRow]) bool {
	n := len(all.entries)
	if n == all.limit || n > 0 && all.bytes+p.value.resultBytes > all.maxBytes {
		return false
	}
	all.entries = append(all.entries, matchedEntry{position: p.position, account: p.account, value: p.value.resultBytes})
	all.bytes += p.value.resultBytes
	return true
}

// last returns the position of the last entry. The next search continues after it.
func (all *matches) last() *atrium.Position { return &all.entries[len(all.entries)-1].position }

// search returns up to limit matching entries with up to maxBytes, and the position to continue
// after, nil at the end.
func (m *matcher) search(it *entryIterator[claimRow], limit, maxBytes int) (matching []matchedEntry, next *atrium.Position, err error) {
	all := matches{limit: limit, maxBytes: maxBytes}
	var batch []entryRow[claimRow] // entries that need more data, and all that follow, to keep the order of matches
	var last *atrium.Position
	pendingBytes, readBytes := 0, 0
	for scanned := 0; ; scanned++ {
		p, err := it.next()
		if err != nil {
			return nil, nil, err
		}
		ended := p == nil || scanned == maxMatchEntries || len(all.entries) == limit || readBytes >= maxMatchBytes
		if len(batch) > 0 && (ended || pendingBytes+m.unreadBytes(&p.value) > maxBatchBytes || len(batch) == maxChunk) {
			found, err := m.matchUnread(it, batch)
			if err != nil {
				return nil, nil, err
			}
			for i := range found {
				if !all.add(&found[i]) {
					return all.entries, all.last(), nil
				}
			}
			batch, pendingBytes = nil, 0
			ended = ended || len(all.entries) == limit
		}
		switch {
		case p == nil:
			return all.entries, nil, nil
		case ended:
			return all.entries, last, nil
		}
		last = &p.position
		readBytes += len(p.value.source) + len(p.value.kind) + len(p.value.name) + len(p.value.domain)
		switch missing := m.unreadBytes(&p.value); {
		case !m.matchesRow(p):
		case missing == 0 && len(batch) == 0:
			if !all.add(p) {
				return all.entries, all.last(), nil
			}
		default:
			batch, pendingBytes, readBytes = append(batch, *p), pendingBytes+missing, readBytes+missing
		}
	}
}

// matchUnread reads the missing data of entries and returns those that match.
func (m *matcher) matchUnread(it *entryIterator[claimRow], entries []entryRow[claimRow]) (matching []entryRow[claimRow], err error) {
	var toRead, ids []atrium.EntryID
	for i := range entries {
		if m.domain != "" && entries[i].value.domainOmitted() {
			toRead = append(toRead, entries[i].entryID())
		}
	}
	domains, err := readColumn(it.tx, it.tenant, findClaimedDomains, toRead)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(p entryRow[claimRow]) bool {
		domain, omitted := domains[p.entryID()]
		return omitted && !m.matchesDomain(string(domain))
	})
	if m.needsPayload() {
		for i := range entries {
			ids = append(ids, entries[i].entryID())
		}
	}
	payloads, err := readColumn(it.tx, it.tenant, findPayloads, ids)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if !m.needsPayload() || m.matchesPayload(payloads[entries[i].entryID()]) {
			matching = append(matching, entries[i])
		}
	}
	return matching, nil
}

// entryID returns the identifier of the entry.
func (p *entryRow[T]) entryID() atrium.EntryID { return entryIDAt(&p.position) }

// entryIDAt returns the identifier of the entry at a position.
func entryIDAt(p *atrium.Position) atrium.EntryID {
	return atrium.EntryID(atrium.EntryID("").Prefix() + p.ID)
}
