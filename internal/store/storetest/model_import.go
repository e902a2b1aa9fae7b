package storetest

import (
	"atrium"
	"atrium/internal/canonical"
	"atrium/internal/store"
)

// importRecord imports a record into the model. added reports whether it is new, ok whether it is
// accepted.
func (r *tenantModel) importRecord(record store.Record) (added, ok bool) {
	if stored := r.stored(record); stored != nil {
		return false, describe(stored) == describe(record)
	}
	switch v := record.(type) {
	case *atrium.Account:
		if _, taken := r.withDomain(v.Domain); taken {
			return false, false
		}
		r.accounts[v.ID] = *v
	case *atrium.LinkedProspect:
		for _, id := range v.AccountIDs {
			if _, ok := r.accounts[id]; !ok {
				return false, false
			}
		}
		r.prospects[v.ID] = *v
	case *atrium.Merge:
		if _, ok := r.accounts[v.AccountID]; !ok || !r.mayMerge(v.AccountID, v.Into) {
			return false, false
		}
		r.merged[v.AccountID] = v.Into
	case *atrium.Page:
		r.pages[v.ID] = *v
	case *atrium.Audience:
		p, ok := r.pages[v.PageID]
		if !ok {
			return false, false
		}
		if !v.Archived {
			p.AudiencesCount++
			r.pages[p.ID] = p
		}
		r.audiences[v.ID] = *v
	case *atrium.AudienceVersion:
		return r.importVersion(*v)
	case *atrium.Entry:
		return r.importEntry(*v)
	}
	return true, true
}

// stored returns the record of the model with the same identifier, or nil.
func (r *tenantModel) stored(record store.Record) store.Record {
	switch v := record.(type) {
	case *atrium.Account:
		if s, ok := r.accounts[v.ID]; ok {
			return &s
		}
	case *atrium.LinkedProspect:
		if s, ok := r.prospects[v.ID]; ok {
			return &s
		}
	case *atrium.Merge:
		if into := r.merged[v.AccountID]; into != "" {
			return &atrium.Merge{AccountID: v.AccountID, Into: into}
		}
	case *atrium.Page:
		if s, ok := r.pages[v.ID]; ok {
			return &s
		}
	case *atrium.Audience:
		if s, ok := r.audiences[v.ID]; ok {
			return &s
		}
	case *atrium.AudienceVersion:
		if s, ok := r.versions[v.ID]; ok {
			return &s
		}
	case *atrium.Entry:
		if s, ok := r.entries[v.ID]; ok {
			return &s
		}
	}
	return nil
}

func (r *tenantModel) importVersion(v atrium.AudienceVersion) (added, ok bool) {
	u, ok := r.audiences[v.AudienceID]
	if !ok || v.PageID != u.PageID {
		return false, false
	}
	highest := int64(0)
	for _, other := range r.versions {
		if other.AudienceID == v.AudienceID {
			highest = max(highest, other.Number)
			if other.Number == v.Number {
				return false, false
			}
		}
	}
	if v.Number == 0 {
		if highest == atrium.MaxVersionNumber {
			return false, false
		}
		v.Number = highest + 1
	}
	r.versions[v.ID] = v
	return true, true
}

func (r *tenantModel) importEntry(e atrium.Entry) (added, ok bool) {
	if _, erased := r.erased[e.ID]; erased {
		return false, true
	}
	if _, ok := r.accounts[e.AccountID]; !ok {
		return false, false
	}
	if e.IdempotencyKey != "" {
		if _, taken := r.keys[e.IdempotencyKey]; taken {
			return false, false
		}
		fingerprint, err := canonical.Fingerprint(e.Submission)
		if err != nil {
			return false, false
		}
		r.keys[e.IdempotencyKey] = binding{e.ID, fingerprint}
	}
	r.entries[e.ID], r.origins[e.ID] = e, atrium.Origin{SubmittedBy: atrium.ActorImport, RequestID: importRequest}
	return true, true
}
