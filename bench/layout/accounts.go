package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// linkLayout says which of the tables behind GET /v0/accounts/{id} are
// clustered by their primary key.
type linkLayout struct {
	name                       string
	links, accounts, prospects bool
}

var linkLayouts = []linkLayout{
	{name: "ordinary tables"},
	{name: "links clustered", links: true},
	{name: "links, prospects clustered", links: true, prospects: true},
	{name: "all three clustered", links: true, prospects: true, accounts: true},
}

const prospectsPerAccount = 3

// linkRead is one way to read an account with its prospects.
type linkRead struct {
	l      linkLayout
	one    bool // one query with joins, not two in a read transaction
	mmapMB int

	conn      *sqlite.Conn
	fileBytes float64   // per account
	wall, cpu []float64 // µs, one a round
}

func (l linkLayout) schema(id string) string {
	table := func(clustered bool) string {
		if clustered {
			return ") STRICT, WITHOUT ROWID;\n"
		}
		return ") STRICT;\n"
	}
	// Where the links are not clustered their key does not hold the time: the
	// natural key of such a table, and a sort at each read.
	linkKey := "tenant_id, account_id, prospect_id"
	if l.links {
		linkKey = "tenant_id, account_id, prospect_created_at, prospect_id"
	}
	return fmt.Sprintf(`
CREATE TABLE accounts (
  tenant_id %[1]s NOT NULL, account_id %[1]s NOT NULL, domain TEXT NOT NULL, domain_hash BLOB NOT NULL, name TEXT,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, latest_activity_at INTEGER,
  PRIMARY KEY (tenant_id, account_id), UNIQUE (tenant_id, domain_hash)`, id) + table(l.accounts) + fmt.Sprintf(`
CREATE TABLE prospects (
  tenant_id %[1]s NOT NULL, prospect_id %[1]s NOT NULL, name TEXT, email TEXT, domain TEXT, slug TEXT,
  phone_number TEXT, linkedin_profile_url TEXT, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, prospect_id)`, id) + table(l.prospects) + fmt.Sprintf(`
CREATE TABLE account_prospects (
  tenant_id %[1]s NOT NULL, account_id %[1]s NOT NULL, prospect_created_at INTEGER NOT NULL, prospect_id %[1]s NOT NULL,
  PRIMARY KEY (%[2]s)`, id, linkKey) + table(l.links)
}

const (
	accountColumns     = "a.account_id, a.tenant_id, a.domain, a.name, a.created_at, a.updated_at, a.latest_activity_at"
	accountColumnCount = 7
	prospectColumns    = "p.prospect_id, p.name, p.email, p.domain, p.slug, p.phone_number, p.linkedin_profile_url, p.created_at, p.updated_at"
	prospectJoin       = "JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id"
	linkOrder          = " ORDER BY l.prospect_created_at, l.prospect_id"

	accountJoinSQL = "SELECT " + accountColumns + ", " + prospectColumns +
		" FROM accounts a LEFT JOIN account_prospects l ON l.tenant_id = a.tenant_id AND l.account_id = a.account_id LEFT " + prospectJoin +
		" WHERE a.tenant_id = ?1 AND a.account_id = ?2" + linkOrder
	accountSQL   = "SELECT " + accountColumns + " FROM accounts a WHERE a.tenant_id = ?1 AND a.account_id = ?2"
	prospectsSQL = "SELECT " + prospectColumns + " FROM account_prospects l " + prospectJoin +
		" WHERE l.tenant_id = ?1 AND l.account_id = ?2" + linkOrder
)

// measureAccounts times every way in turn, reading the same accounts.
func measureAccounts(dir string, o options) (rs []*linkRead, err error) {
	defer func() {
		for _, r := range rs {
			r.conn.Close()
		}
	}()
	var tenant value
	var ids []value
	for i, l := range linkLayouts {
		path := filepath.Join(dir, fmt.Sprintf("links-%d.db", i))
		var size float64
		if tenant, ids, size, err = loadLinks(path, l, o); err != nil {
			return rs, fmt.Errorf("%s: %w", l.name, err)
		}
		for _, mmapMB := range []int{0, readerMmapMB} {
			for _, one := range []bool{true, false} {
				conn, err := openReader(path, mmapMB)
				if err != nil {
					return rs, err
				}
				rs = append(rs, &linkRead{l: l, one: one, mmapMB: mmapMB, conn: conn, fileBytes: size})
			}
		}
	}
	for round := range 2*o.rounds + 1 {
		for i := range rs {
			r := rs[(i+round)%len(rs)]
			rng := rand.New(rand.NewPCG(uint64(round), 3))
			cpu, start := cpuTime(), time.Now()
			for range o.perRound {
				if err := r.read(tenant, ids[rng.IntN(len(ids))]); err != nil {
					return rs, fmt.Errorf("%s: %w", r.l.name, err)
				}
			}
			if round > 0 { // the first fills the caches
				r.wall = append(r.wall, micros(time.Since(start))/float64(o.perRound))
				r.cpu = append(r.cpu, micros(cpuTime()-cpu)/float64(o.perRound))
			}
		}
	}
	return rs, nil
}

// read reads one account and checks that nothing is missing.
func (r *linkRead) read(tenant, id value) error {
	want, found := prospectsPerAccount, 0
	var err error
	if r.one {
		found, err = readJoined(r.conn.Prep(accountJoinSQL), accountColumnCount, tenant, id)
	} else {
		// One snapshot for both, and the locks taken once.
		if err := run(r.conn.Prep("BEGIN")); err != nil {
			return err
		}
		if found, err = readRows(r.conn.Prep(accountSQL), tenant, id); err != nil {
			return err
		}
		n, err := readRows(r.conn.Prep(prospectsSQL), tenant, id)
		if err != nil {
			return err
		}
		found, want = found+n, want+1
		if err := run(r.conn.Prep("COMMIT")); err != nil {
			return err
		}
	}
	if err == nil && found != want {
		err = fmt.Errorf("%d rows for an account, want %d", found, want)
	}
	return err
}

// loadLinks writes accounts and their prospects, the links in random order: an
// account gains its prospects over time.
func loadLinks(path string, l linkLayout, o options) (tenant value, ids []value, size float64, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return tenant, nil, 0, err
	}
	defer conn.Close()
	if err := pragmas(conn, "journal_mode = OFF", "synchronous = OFF", "cache_size = -131072"); err != nil {
		return tenant, nil, 0, err
	}
	if err := sqlitex.ExecuteScript(conn, l.schema(o.ids.columnType()), nil); err != nil {
		return tenant, nil, 0, err
	}
	w := newWorkload(layout{ids: o.ids}, options{tenants: 1, accounts: o.linkAccounts})
	tenant = w.accounts[0].tenantID
	begin, end := conn.Prep("BEGIN"), conn.Prep("COMMIT")
	if err := run(begin); err != nil {
		return tenant, nil, 0, err
	}
	for _, a := range w.accounts {
		if err := addAccount(conn, a); err != nil {
			return tenant, nil, 0, err
		}
		ids = append(ids, a.id)
	}
	for n := range prospectsPerAccount {
		for _, i := range w.rng.Perm(len(ids)) {
			p := o.ids.value("prospect", w.ids.next())
			if err := addProspect(conn, tenant, ids[i], p, w.ids.now.UnixMicro(), n); err != nil {
				return tenant, nil, 0, err
			}
		}
	}
	if err := run(end); err != nil {
		return tenant, nil, 0, err
	}
	pages, err := sqlitex.ResultInt64(conn.Prep("PRAGMA page_count"))
	if err != nil {
		return tenant, nil, 0, err
	}
	return tenant, ids, float64(pages) * 4096 / float64(len(ids)), pragmas(conn, "journal_mode = WAL")
}

func addAccount(conn *sqlite.Conn, a account) error {
	s := conn.Prep("INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?3, 1, 1)")
	a.tenantID.bind(s, 1)
	a.id.bind(s, 2)
	s.BindText(3, a.domain)
	s.BindBytes(4, a.domainHash)
	return run(s)
}

func addProspect(conn *sqlite.Conn, tenant, account, id value, at int64, n int) error {
	p := conn.Prep(`INSERT INTO prospects (tenant_id, prospect_id, name, email, domain, slug, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)`)
	tenant.bind(p, 1)
	id.bind(p, 2)
	p.BindText(3, fmt.Sprintf("Prospect %d of %d", n, at))
	p.BindText(4, fmt.Sprintf("prospect.%d.%d@company.example", n, at))
	p.BindText(5, "company.example")
	p.BindText(6, fmt.Sprintf("prospect-%d-%d", n, at))
	p.BindInt64(7, at)
	if err := run(p); err != nil {
		return err
	}
	l := conn.Prep("INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id) VALUES (?1, ?2, ?3, ?4)")
	tenant.bind(l, 1)
	account.bind(l, 2)
	l.BindInt64(3, at)
	id.bind(l, 4)
	return run(l)
}
