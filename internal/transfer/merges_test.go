package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	"atrium/internal/transfer"
)

// mergedPlace returns a tenant with the accounts 1 to 4 and the unattributed account 5. Account 1
// is merged into 2, and 2 into 3.
func mergedPlace(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	for i, domain := range []string{"a1.example", "a2.example", "a3.example", "a4.example", "unattributed.invalid"} {
		p.put(t, fmt.Sprintf(`{"kind":"account","accountId":%q,"domain":%q}`, accountOf(i+1), domain))
	}
	wantReport(t, p.put(t, mergeOf(1, 2), mergeOf(2, 3)), 2, 2, 0)
	return p
}

func accountOf(n int) string { return fmt.Sprintf("account_%026d", n) }

func mergeOf(account, into int) string {
	return fmt.Sprintf(`{"kind":"merge","accountId":%q,"into":%q}`, accountOf(account), accountOf(into))
}

func TestAMergeIsImportedOnceAndNeverReplacesAnother(t *testing.T) {
	p := mergedPlace(t)
	before := p.export(t)
	wantReport(t, p.put(t, mergeOf(2, 3), mergeOf(1, 2)), 2, 0, 2)
	for line, member := range map[string]string{
		mergeOf(1, 3): "into", // the survivor, but not by a direct merge
		mergeOf(1, 4): "into", mergeOf(3, 1): "into", mergeOf(3, 3): "into", mergeOf(4, 5): "into", mergeOf(5, 4): "into",
		mergeOf(6, 4): "accountId", mergeOf(4, 6): "into",
	} {
		for _, check := range []bool{true, false} {
			_, err := p.importFrom(t, strings.NewReader(line+"\n"), transfer.Options{Check: check})
			if err == nil || !strings.Contains(err.Error(), "\n  "+member+": ") {
				t.Errorf("%s, check %v: %v, want a fault of %s", line, check, err, member)
			}
		}
	}
	if after := p.export(t); after != before {
		t.Errorf("exported\n%s\nwant\n%s", after, before)
	}
}

func TestTheSurvivorHasLinksAndEntriesOfMergedAccounts(t *testing.T) {
	p := mergedPlace(t)
	p.put(t, fmt.Sprintf(`{"kind":"prospect","name":"Dana","accountIds":[%q]}`, accountOf(1)),
		fmt.Sprintf(`{"kind":"accountLog","accountId":%q,"source":"crm","payload":{},"createdAt":"2026-01-02T03:04:05.678Z"}`, accountOf(2)))
	a, linked, err := p.Account(t.Context(), p.tenant, "account_00000000000000000000000001")
	if err != nil || string(a.ID) != accountOf(3) || len(linked) != 1 || a.LatestActivityAt == nil || a.LatestActivityAt.String() != "2026-01-02T03:04:05.678Z" {
		t.Errorf("the survivor is %+v with %d prospects, %v", a, len(linked), err)
	}
}
