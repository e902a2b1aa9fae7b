package kernel

import (
	"encoding/binary"
	"errors"

	"atrium"
)

// An EventRef says what an event is about. It consists of identifiers and numbers, so that erasures need not
// change stored references.
type EventRef struct {
	Kind    atrium.EventKey
	Entry   atrium.EntryID   // unless Kind is EventKeyAudit; that of EventKeyAccount created the account
	Account atrium.AccountID // unless Kind is EventKeyAudit: the acknowledged account of the entry, or the created account
	Number  int64            // of an audit record: at least 1
}

// ID returns the identifier of the event of a tenant.
func (r *EventRef) ID(tenant atrium.TenantID) atrium.EventID {
	switch r.Kind {
	case atrium.EventKeyAudit:
		return r.Kind.ID(tenant, atrium.AuditSubject(r.Number))
	case atrium.EventKeyAccount:
		return r.Kind.ID(tenant, string(r.Account))
	default:
		return r.Kind.ID(tenant, string(r.Entry))
	}
}

// eventRefsVersion is the first byte of encoded references. Each reference follows: its kind in one byte,
// and then the packed identifiers of the entry and the account, or the number of the audit record as a varint.
const eventRefsVersion = 1

// EncodeEventRefs returns references as they are stored.
func EncodeEventRefs(refs []EventRef) []byte {
	b := make([]byte, 1, 1+len(refs)*(1+2*IDBytes))
	b[0] = eventRefsVersion
	for i := range refs {
		r := &refs[i]
		b = append(b, byte(r.Kind))
		if r.Kind == atrium.EventKeyAudit {
			b = binary.AppendUvarint(b, uint64(r.Number))
			continue
		}
		b = append(append(b, IDArg(r.Entry).([]byte)...), IDArg(r.Account).([]byte)...)
	}
	return b
}

var errEventRefs = errors.New("the references of events are damaged, or of a later release")

// DecodeEventRefs decodes stored references. There is at least one.
func DecodeEventRefs(b []byte) (refs []EventRef, err error) {
	if len(b) < 2 || b[0] != eventRefsVersion {
		return nil, errEventRefs
	}
	for b = b[1:]; len(b) > 0; {
		r := EventRef{Kind: atrium.EventKey(b[0])}
		b = b[1:]
		switch r.Kind {
		case atrium.EventKeyAudit:
			number, n := binary.Uvarint(b)
			if r.Number = int64(number); n <= 0 || r.Number < 1 {
				return nil, errEventRefs
			}
			b = b[n:]
		case atrium.EventKeyEntry, atrium.EventKeyErased, atrium.EventKeyAccount:
			if len(b) < 2*IDBytes {
				return nil, errEventRefs
			}
			r.Entry, r.Account = UnpackID[atrium.EntryID](b[:IDBytes]), UnpackID[atrium.AccountID](b[IDBytes:2*IDBytes])
			b = b[2*IDBytes:]
		default:
			return nil, errEventRefs
		}
		refs = append(refs, r)
	}
	return refs, nil
}
