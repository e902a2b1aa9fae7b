package storetest

import (
	"fmt"
	"slices"
	"testing"

	"atrium/internal/auditlog"
	"atrium/internal/auditlog/auditlogtest"
)

// sealAsVersion1 seals the rows between two numbers again in version 1, each with its salt, and stores
// them.
func (c *tampered) sealAsVersion1(t tb, from, to int64) {
	t.Helper()
	var previous []byte
	if from > 1 {
		previous = c.rows[from-2].Hash
	}
	for i := from - 1; i < to; i++ {
		row := &c.rows[i]
		auditlogtest.Seal1(row, c.tenant, previous)
		c.remove(t, row.Number)
		c.insert(t, row)
		previous = row.Hash
	}
	c.setHead(t, to, previous)
}

func detailsAreNotHidden(t *testing.T, e *env) {
	join := slices.Concat[[]byte]
	altered, unrecorded := auditlog.Altered, auditlog.Unrecorded
	for name, forged := range map[string]struct {
		flaw auditlog.Flaw
		of   func(salt, detail []byte) (newSalt, newDetail any)
	}{
		"the detail moved into the salt":               {altered, func(s, d []byte) (any, any) { return join(s, d), nil }},
		"the detail moved into the salt, an empty one": {altered, func(s, d []byte) (any, any) { return join(s, d), []byte{} }},
		"some of the detail moved into the salt":       {altered, func(s, d []byte) (any, any) { return join(s, d[:1]), d[1:] }},
		"the salt moved into the detail":               {altered, func(s, d []byte) (any, any) { return nil, join(s, d) }},
		"the salt moved into the detail, an empty one": {altered, func(s, d []byte) (any, any) { return []byte{}, join(s, d) }},
		"some of the salt moved into the detail":       {altered, func(s, d []byte) (any, any) { return s[:15], join(s[15:], d) }},
		"the detail taken out, the salt left":          {altered, func(s, _ []byte) (any, any) { return s, nil }},
		"the detail emptied, the salt left":            {altered, func(s, _ []byte) (any, any) { return s, []byte{} }},
		"the salt taken out, the detail left":          {altered, func(_, d []byte) (any, any) { return nil, d }},
		"the salt emptied, the detail left":            {altered, func(_, d []byte) (any, any) { return []byte{}, d }},
		"both emptied":                                 {altered, func(_, _ []byte) (any, any) { return []byte{}, []byte{} }},
		"the detail taken out, the salt emptied":       {altered, func(_, _ []byte) (any, any) { return []byte{}, nil }},
		"the salt taken out, the detail emptied":       {altered, func(_, _ []byte) (any, any) { return nil, []byte{} }},
		"both taken out":                               {unrecorded, func(_, _ []byte) (any, any) { return nil, nil }},
	} {
		for version := 1; version <= 2; version++ {
			c := &tampered{env: e.as(e.newTenant(t))}
			c.fill(t)
			if version == 1 {
				c.sealAsVersion1(t, 1, 10)
				c.early = auditlog.Head{Number: 5, Hash: c.rows[4].Hash}
			}
			c.wantSound(t, &c.early)
			salt, detail := forged.of(c.rows[5].Salt, c.rows[5].Detail)
			c.set(t, 6, "salt", salt)
			c.set(t, 6, "detail", detail)
			c.wantFound(t, fmt.Sprintf("%s, in version %d", name, version), auditlog.Fault{Flaw: forged.flaw, Number: 6})
		}
	}
}

func formerSealsHold(t *testing.T, e *env) {
	former := func() *tampered {
		c := &tampered{env: e.as(e.newTenant(t))}
		c.fill(t)
		c.sealAsVersion1(t, 1, 10)
		c.early = auditlog.Head{Number: 5, Hash: c.rows[4].Hash}
		return c
	}
	c := former()
	c.wantSound(t, &c.early)
	c.brand(t, "after an upgrade")
	if report := c.wantSound(t, &c.early); report.Head.Number != 11 {
		t.Errorf("the report is %+v", report)
	}
	if fault := c.exportedFault(t, &c.early, auditlog.Fault{Flaw: "not verified"}); fault != nil {
		t.Errorf("exported it has the fault %v", fault)
	}
	for _, length := range []int{0, 1, 15, 17, 32} {
		c := former()
		c.rows[5].Salt = make([]byte, length)
		c.sealAsVersion1(t, 6, 10)
		c.wantFound(t, fmt.Sprintf("a salt of %d bytes", length), auditlog.Fault{Flaw: auditlog.Altered, Number: 6})
	}

	// Rows with seals of the former version after those of the current one: a rollback, or a
	// forgery.
	c = &tampered{env: e.as(e.newTenant(t))}
	c.fill(t)
	c.sealAsVersion1(t, 7, 10)
	c.wantFound(t, "version 1 after version 2", auditlog.Fault{Flaw: auditlog.Downgraded, Number: 7})
	later := c.head(t) // a known head
	c.wantSound(t, &later)
	c.sealAsVersion1(t, 7, 9)
	c.remove(t, 10)
	c.wantFault(t, "version 1 after version 2, with a head that they do not have", &later, auditlog.Fault{Flaw: auditlog.Cut, Number: 9})
}
