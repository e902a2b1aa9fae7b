package requestlog

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"atrium"
	"atrium/internal/strictjson"
	"atrium/internal/telemetry"
)

// A database records what was stored, by tenant. It fails while err is set.
type database struct {
	refused map[atrium.TenantID][]atrium.RefusedRequest
	reads   []atrium.Read
	calls   []int // the numbers of rows
	err     error
}

func (d *database) StoreRefusedRequests(_ context.Context, refused []atrium.RefusedRequest) error {
	if d.err != nil {
		return d.err
	}
	if d.refused == nil {
		d.refused = map[atrium.TenantID][]atrium.RefusedRequest{}
	}
	d.calls = append(d.calls, len(refused))
	for _, f := range refused {
		d.refused[f.TenantID] = append(d.refused[f.TenantID], f)
	}
	return nil
}

func (d *database) StoreReads(_ context.Context, reads []atrium.Read) error {
	if d.err != nil {
		return d.err
	}
	d.reads = append(d.reads, reads...)
	return nil
}

func (d *database) rows() (n int) {
	for _, rows := range d.refused {
		n += len(rows)
	}
	return n
}

var at = time.Date(2026, 3, 4, 5, 6, 7, 890_123_000, time.UTC)

func newRecorder() (*Recorder, *database) {
	d := &database{}
	return New(d, func() time.Time { return at }), d
}

func write(t *testing.T, r *Recorder) {
	t.Helper()
	if err := r.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const quiet = atrium.TenantID("tenant_00000000000000000000000001")

// refused returns a refused request of a tenant. Those with the same variant are equal.
func refused(tenant atrium.TenantID, variant int) *telemetry.Exchange {
	return &telemetry.Exchange{
		RequestID: "req", Method: "POST", Route: "/v0/account_logs", Status: 400, TenantID: tenant, KeyID: "key_00000000000000000000000001",
		Code: atrium.CodeInvalidRequest, Detail: "The request is not valid.", UserAgent: "crm/1",
		Faults: []atrium.Fault{{In: atrium.InBody, Where: fmt.Sprint("/", variant), Detail: "is unknown"}},
	}
}

func tenantNumber(n int) atrium.TenantID {
	return atrium.TenantID(fmt.Sprintf("tenant_%026d", n))
}

func TestEqualRefusedRequestsBecomeOneRowWithACount(t *testing.T) {
	r, d := newRecorder()
	for i := range 3 {
		x := refused(quiet, 1)
		x.RequestID = fmt.Sprint("req-", i)
		r.Observe(x)
	}
	want := atrium.RefusedRequest{
		TenantID: quiet, At: atrium.At(at), Count: 3, RequestID: "req-0", Method: "POST", Route: "/v0/account_logs", Status: 400,
		Code: atrium.CodeInvalidRequest, Detail: "The request is not valid.", KeyID: "key_00000000000000000000000001", UserAgent: "crm/1",
		Faults: []atrium.Fault{{In: atrium.InBody, Where: "/1", Detail: "is unknown"}},
	}
	write(t, r)
	if len(d.refused[quiet]) == 1 {
		want.ID = d.refused[quiet][0].ID
	}
	if !reflect.DeepEqual(d.refused[quiet], []atrium.RefusedRequest{want}) {
		t.Errorf("stored %+v, want %+v", d.refused[quiet], want)
	}
	write(t, r)
	if len(d.calls) != 1 {
		t.Errorf("without requests, %v rows were written", d.calls)
	}
}

func TestRefusedRequestsThatDifferInAnythingAreRowsOfTheirOwn(t *testing.T) {
	r, d := newRecorder()
	r.Observe(refused(quiet, 1))
	changes := []func(x *telemetry.Exchange){
		func(x *telemetry.Exchange) { x.Method = "PATCH" },
		func(x *telemetry.Exchange) { x.Route = "/v0/accounts" },
		func(x *telemetry.Exchange) { x.Status = 409 },
		func(x *telemetry.Exchange) { x.Code = atrium.CodeConflict },
		func(x *telemetry.Exchange) { x.Detail = "No." },
		func(x *telemetry.Exchange) { x.KeyID = "key_00000000000000000000000002" },
		func(x *telemetry.Exchange) { x.KeyID, x.UserID = "", "user_00000000000000000000000001" },
		func(x *telemetry.Exchange) { x.UserAgent = "crm/2" },
		func(x *telemetry.Exchange) { x.Faults = nil },
		func(x *telemetry.Exchange) {
			x.Faults = []atrium.Fault{{In: atrium.InQuery, Where: "/1", Detail: "is unknown"}}
		},
		func(x *telemetry.Exchange) {
			x.Faults = []atrium.Fault{{In: atrium.InBody, Where: "/1i", Detail: "s unknown"}}
		},
	}
	for _, change := range changes {
		x := refused(quiet, 1)
		change(x)
		r.Observe(x)
	}
	write(t, r)
	if got := len(d.refused[quiet]); got != 1+len(changes) {
		t.Errorf("%d rows, want %d", got, 1+len(changes))
	}
}

func TestRequestsOfNobodyAndSuccessfulOnesAreNotRecorded(t *testing.T) {
	r, d := newRecorder()
	for _, change := range []func(x *telemetry.Exchange){
		func(x *telemetry.Exchange) { x.TenantID = "" },
		func(x *telemetry.Exchange) { x.KeyID = "" }, // a visitor of a site, whose path names the tenant
		func(x *telemetry.Exchange) { x.Status, x.Code = 200, "" },
	} {
		x := refused(quiet, 1)
		change(x)
		r.Observe(x)
	}
	write(t, r)
	if len(d.refused) > 0 {
		t.Errorf("stored %+v", d.refused)
	}
}

func TestTextsOfRefusedRequestsAreBounded(t *testing.T) {
	r, d := newRecorder()
	long := strings.Repeat("ü", 10_000)
	x := refused(quiet, 1)
	x.Detail, x.UserAgent, x.Faults = long, "a\x00b\r\n"+long, nil
	for range atrium.MaxFaults {
		x.Faults = append(x.Faults, atrium.Fault{In: atrium.InBody, Where: "/" + long, Detail: "a\x00" + long})
	}
	r.Observe(x)
	write(t, r)
	f := d.refused[quiet][0]
	if !strings.HasPrefix(f.UserAgent, "a?b????") || len(f.UserAgent) > atrium.MaxUserAgent {
		t.Errorf("the User-Agent is %q", f.UserAgent)
	}
	size := 0
	for _, fault := range f.Faults {
		size += len(fault.Where) + len(fault.Detail)
		if len(fault.Where) > maxWhere || len(fault.Detail) > maxDetail || strings.ContainsRune(fault.Detail, 0) || !utf8.ValidString(fault.Where+fault.Detail) {
			t.Errorf("a fault is %q", fault)
		}
	}
	if len(f.Detail) > maxDetail || !utf8.ValidString(f.Detail) || size > maxFaultBytes || len(f.Faults) < 5 {
		t.Errorf("%d bytes of detail, and %d in %d faults", len(f.Detail), size, len(f.Faults))
	}
}

func TestRowsThatWaitKeepNoRequest(t *testing.T) {
	r, _ := newRecorder()
	before := liveBytes()
	const rows = 40
	for i := range rows {
		body := []byte(`{"` + strings.Repeat("~", 1<<20) + `":1}`)
		o, err := strictjson.Parse(body)
		if err != nil {
			t.Fatal(err)
		}
		o.RejectUnknown()
		x := refused(quiet, i)
		x.UserAgent, x.Faults = strconv.Itoa(i)+strings.Repeat("a", 1<<20), o.Faults()
		r.Observe(x)
	}
	if kept := liveBytes() - before; kept > rows*16<<10 {
		t.Errorf("%d rows keep %d bytes", rows, kept)
	}
	runtime.KeepAlive(r)
}

// liveBytes returns the size of all objects that are reachable.
func liveBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAFloodOfOneTenantIsBoundedAndLosesNothingOfOthers(t *testing.T) {
	r, d := newRecorder()
	const flood = atrium.TenantID("tenant_00000000000000000000000002")
	const sent = 20_000
	var sending sync.WaitGroup
	for n := range 4 {
		sending.Go(func() {
			for i := range sent / 4 {
				r.Observe(refused(flood, n*sent+i))
			}
		})
	}
	for i := range maxRowsOfTenant {
		r.Observe(refused(quiet, i))
	}
	sending.Wait()
	write(t, r)
	if got := len(d.refused[flood]); got != maxRowsOfTenant {
		t.Errorf("the flood has %d rows, want %d", got, maxRowsOfTenant)
	}
	if got := len(d.refused[quiet]); got != maxRowsOfTenant {
		t.Errorf("the other tenant has %d rows, want %d", got, maxRowsOfTenant)
	}
	if got := r.DroppedRefusedRequests(); got != sent-maxRowsOfTenant {
		t.Errorf("%d were dropped, want %d", got, sent-maxRowsOfTenant)
	}
}

func TestAFloodOfManyTenantsIsBoundedAndLeavesRoomForEach(t *testing.T) {
	r, d := newRecorder()
	const floods, each = 200, 60
	for i := range each {
		for n := range floods {
			r.Observe(refused(tenantNumber(n+100), i))
		}
	}
	r.Observe(refused(quiet, 1))
	write(t, r)
	if d.rows() != maxRows || len(d.refused[quiet]) != 1 {
		t.Errorf("%d rows, want %d; %d of the quiet tenant, want 1", d.rows(), maxRows, len(d.refused[quiet]))
	}
	for tenant, rows := range d.refused {
		if tenant != quiet && len(rows) < maxRows/floods-1 {
			t.Errorf("%s has %d rows, want %d", tenant, len(rows), maxRows/floods-1)
		}
	}
	if got := r.DroppedRefusedRequests(); got != floods*each+1-maxRows {
		t.Errorf("%d were dropped, want %d", got, floods*each+1-maxRows)
	}
	for _, n := range d.calls {
		if n > maxBatch {
			t.Errorf("a transaction stored %d rows, want at most %d", n, maxBatch)
		}
	}
}

func TestRowsThatCouldNotBeStoredAreStoredLater(t *testing.T) {
	r, d := newRecorder()
	d.err = errors.New("no database")
	r.Observe(refused(quiet, 1))
	for range 3 {
		if err := r.Write(t.Context()); !errors.Is(err, d.err) {
			t.Errorf("wrote: %v", err)
		}
	}
	r.Observe(refused(quiet, 1))
	r.Observe(refused(quiet, 2))
	d.err = nil
	write(t, r)
	total := int64(0)
	for _, f := range d.refused[quiet] {
		total += f.Count
	}
	if len(d.refused[quiet]) != 2 || total != 3 {
		t.Errorf("stored %+v", d.refused[quiet])
	}
}

func TestReadsOfUsersAndExportsAreRecorded(t *testing.T) {
	r, d := newRecorder()
	read := func(kind atrium.ReadKind, subject string, key atrium.KeyID, user atrium.UserID) {
		r.Observe(&telemetry.Exchange{
			RequestID: "req", Method: "GET", Route: "/manage/v0/x", Status: 200, TenantID: quiet, KeyID: key, UserID: user, Read: kind, Subject: subject,
		})
	}
	const user, key = atrium.UserID("user_00000000000000000000000001"), atrium.KeyID("key_00000000000000000000000001")
	read(atrium.ReadProspect, "prospect_1", "", user)
	read(atrium.ReadProspect, "prospect_1", "", user)
	read(atrium.ReadProspect, "prospect_2", "", user)
	read(atrium.ReadProspect, "prospect_1", key, "")
	read(atrium.ReadExport, "", key, "")
	read("", "", "", user)
	write(t, r)
	got := map[string]int64{}
	for _, read := range d.reads {
		got[fmt.Sprint(read.Kind, " ", read.Subject, " ", read.KeyID, read.UserID)] = read.Count
		if read.At != atrium.At(at) || read.ID == "" || read.TenantID != quiet || read.RequestID != "req" || read.Route != "/manage/v0/x" {
			t.Errorf("stored %+v", read)
		}
	}
	want := map[string]int64{"prospect prospect_1 " + string(user): 2, "prospect prospect_2 " + string(user): 1, "export  " + string(key): 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}

func TestAFloodOfReadsIsBoundedAndCounted(t *testing.T) {
	r, d := newRecorder()
	const sent = 10_000
	for i := range sent {
		r.Observe(&telemetry.Exchange{TenantID: quiet, UserID: "user_00000000000000000000000001", Read: atrium.ReadEntry, Subject: strconv.Itoa(i)})
	}
	// Nobody can hide a read behind a flood, neither an own one nor that of a colleague.
	r.Observe(&telemetry.Exchange{TenantID: quiet, UserID: "user_00000000000000000000000002", Read: atrium.ReadProspect, Subject: "prospect_1"})
	write(t, r)
	counts := map[atrium.UserID]int64{}
	for _, read := range d.reads {
		counts[read.UserID] += read.Count
	}
	if want := maxRowsOfTenant - generalRows + 2; len(d.reads) != want || r.DroppedReads() != 0 {
		t.Errorf("%d were stored and %d dropped, want %d and none", len(d.reads), r.DroppedReads(), want)
	}
	if counts["user_00000000000000000000000001"] != sent || counts["user_00000000000000000000000002"] != 1 {
		t.Errorf("stored are %v", counts)
	}
	for i := range 2 * maxRowsOfTenant { // many callers at once
		r.Observe(&telemetry.Exchange{TenantID: quiet, UserID: atrium.UserID("user_" + strconv.Itoa(i)), Read: atrium.ReadEntry, Subject: "prospectlog_1"})
	}
	if r.DroppedReads() != maxRowsOfTenant {
		t.Errorf("%d were dropped, want %d", r.DroppedReads(), maxRowsOfTenant)
	}
}
