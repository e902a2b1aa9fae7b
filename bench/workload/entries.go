package workload

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// WriteEntries writes accounts and entries of random accounts to a file, in the format of an import. One
// entry in two has an idempotency key. payload is the approximate size of a payload in bytes.
func WriteEntries(path string, accounts, entries, payload int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriterSize(f, 1<<20)
	for i := range accounts {
		fmt.Fprintf(w, `{"kind":"account","accountId":%q,"domain":%q,"name":"Example %d","createdAt":"2025-06-01T00:00:00Z"}`+"\n", ID("account", i), Domain(i), i)
	}
	random, at := rand.New(rand.NewPCG(1, 2)), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	filler := strings.Repeat("x", max(payload-30, 0))
	for i := range entries {
		key := ""
		if i%2 == 0 {
			key = fmt.Sprintf(`,"idempotencyKey":"order-%012d"`, i)
		}
		at = at.Add(5 * time.Second)
		fmt.Fprintf(w, `{"kind":"accountLog","accountLogId":%q,"accountId":%q,"source":"crm","type":"page.viewed","payload":{"n":%d,"text":"%s"}%s,"createdAt":"%s"}`+"\n",
			ID("prospectlog", i), ID("account", random.IntN(accounts)), i, filler, key, at.Format(time.RFC3339))
	}
	return w.Flush()
}
