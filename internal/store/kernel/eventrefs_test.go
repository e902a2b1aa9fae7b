package kernel

import (
	"bytes"
	"slices"
	"testing"

	"atrium"
)

func someEventRefs() []EventRef {
	entry, account := atrium.NewID[atrium.EntryID](), atrium.NewID[atrium.AccountID]()
	return []EventRef{
		{Kind: atrium.EventKeyAccount, Entry: entry, Account: account},
		{Kind: atrium.EventKeyEntry, Entry: entry, Account: account},
		{Kind: atrium.EventKeyErased, Entry: entry, Account: account},
		{Kind: atrium.EventKeyAudit, Number: 1},
		{Kind: atrium.EventKeyAudit, Number: 1<<63 - 1},
	}
}

func TestReferencesOfEventsAreDecodedAsEncoded(t *testing.T) {
	refs := someEventRefs()
	decoded, err := DecodeEventRefs(EncodeEventRefs(refs))
	if err != nil || !slices.Equal(decoded, refs) {
		t.Errorf("decoded %+v, %v, want %+v", decoded, err, refs)
	}
}

func TestEventsHaveDistinctIdentifiersThatDependOnTheTenant(t *testing.T) {
	seen := map[atrium.EventID]bool{}
	refs := someEventRefs()
	tenants := []atrium.TenantID{atrium.NewID[atrium.TenantID](), atrium.NewID[atrium.TenantID]()}
	for _, tenant := range tenants {
		for i := range refs {
			id := refs[i].ID(tenant)
			if _, ok := atrium.ParseID[atrium.EventID](string(id)); !ok || seen[id] {
				t.Errorf("%s of %+v is invalid or not unique", id, refs[i])
			}
			if again := refs[i].ID(tenant); again != id {
				t.Errorf("%s, and then %s", id, again)
			}
			seen[id] = true
		}
	}
}

// TestAnIdentifierOfAnEventNeverChanges has identifiers that receivers have stored.
func TestAnIdentifierOfAnEventNeverChanges(t *testing.T) {
	const tenant = atrium.TenantID("tenant_01h2xcejqtf2nbrexx3vqjhp41")
	for want, ref := range map[atrium.EventID]EventRef{
		"event_03gvb8fgnzt71scekktnqt82ww": {Kind: atrium.EventKeyEntry, Entry: "prospectlog_01h2xcejqtf2nbrexx3vqjhp42"},
		"event_65kmb6rkckq0bfpzsnkr99hvs9": {Kind: atrium.EventKeyAudit, Number: 7},
	} {
		if id := ref.ID(tenant); id != want {
			t.Errorf("the identifier of %+v is %s, want %s", ref, id, want)
		}
	}
}

func TestDamagedReferencesOfEventsAreRefused(t *testing.T) {
	whole := EncodeEventRefs(someEventRefs()[:1])
	for _, damaged := range [][]byte{nil, {}, {eventRefsVersion}, whole[:len(whole)-1], append([]byte{2}, whole[1:]...), {1, 9}, {1, 4}, {1, 4, 0}, bytes.Repeat([]byte{0xff}, 20)} {
		if refs, err := DecodeEventRefs(damaged); err == nil {
			t.Errorf("%x was decoded as %+v", damaged, refs)
		}
	}
}

func FuzzEventRefs(f *testing.F) {
	f.Add(EncodeEventRefs(someEventRefs()))
	f.Add([]byte{1, 4, 0x80, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		refs, err := DecodeEventRefs(b)
		if err != nil {
			return
		}
		again, err := DecodeEventRefs(EncodeEventRefs(refs))
		if err != nil || !slices.Equal(again, refs) || len(refs) == 0 {
			t.Fatalf("%x is decoded as %+v, and this, encoded, as %+v, %v", b, refs, again, err)
		}
	})
}
