package main

import "fmt"

// cluster is the order in which the rows of the entries' table lie.
type cluster int

const (
	byRowid   cluster = iota // ordinary table; a unique index finds an entry by id
	byID                     // WITHOUT ROWID (tenant_id, account_log_id)
	byAccount                // WITHOUT ROWID (tenant_id, account_id, account_log_id)
)

// layout is one candidate: a schema and the way it is written.
type layout struct {
	name, about string

	cluster      cluster
	timeline     bool // an index (tenant_id, account_id, account_log_id)
	timelineAt   bool // an index (tenant_id, account_id, created_at)
	chain        bool // each entry holds its account's previous entry, the account its newest
	splitKeys    bool // idempotency keys in a table of their own
	splitPayload bool // payloads in a table of their own
	untouched    bool // the account is looked up, its latest activity not updated

	ids     idForm
	keys    keyForm
	clients clientKeys
}

// layouts returns the candidates; the first is the one that the others are
// compared with. base is the form of the identifiers where that is not itself
// the question.
func layouts(base idForm) []layout {
	all := []layout{
		{name: "A", about: "rowid, unique (tenant, id), partial unique (tenant, key hash)"},
		{name: "A-nokey", about: "A, no entry has a key: what the key costs", clients: noKeys},
		{name: "A-still", about: "A, the account is read and not updated: what the update costs", untouched: true},
		{name: "B", about: "clustered by (tenant, id)", cluster: byID},
		{name: "B-split", about: "B, payload in a rowid table of its own", cluster: byID, splitPayload: true},
		{name: "C", about: "clustered by (tenant, account, id), unique (tenant, id)", cluster: byAccount},
		{name: "D", about: "A and index (tenant, account, id)", timeline: true},
		{name: "D-still", about: "D, latest activity read from the index, account not updated", timeline: true, untouched: true},
		{name: "D-time", about: "D-still, its index (tenant, account, created_at)", timelineAt: true, untouched: true},
		{name: "E", about: "A, keys in a clustered table of their own", splitKeys: true},
		{name: "F", about: "A, payload in a rowid table of its own", splitPayload: true},
		{name: "G", about: "A, per-account chain of entries", chain: true},
	}
	for i := range all {
		all[i].ids = base
	}
	for form, name := range []string{idSuffix: "suffix", idFull: "full", idPacked: "packed"} {
		if idForm(form) != base {
			all = append(all,
				layout{name: "A-" + name, about: "A, identifiers: " + name, ids: idForm(form)},
				layout{name: "D-" + name, about: "D-still, identifiers: " + name, ids: idForm(form), timeline: true, untouched: true})
		}
	}
	return append(all,
		layout{name: "A-text", about: "A, random keys of 36 characters kept as text", ids: base, keys: keyText},
		layout{name: "A-mixed", about: "A, random keys of 36 characters kept as 16 characters and a hash", ids: base, keys: keyMixed},
		layout{name: "A-seqhash", about: "A, sequential keys, hashed", ids: base, clients: sequentialKeys},
		layout{name: "A-seqtext", about: "A, sequential keys kept as text", ids: base, keys: keyText, clients: sequentialKeys},
	)
}

// schema returns the tables and indexes of the layout.
func (l layout) schema() string {
	id, key := l.ids.columnType(), l.keys.columnType()
	s := fmt.Sprintf(`
CREATE TABLE accounts (
  tenant_id %[1]s NOT NULL, account_id %[1]s NOT NULL,
  domain TEXT NOT NULL, domain_hash BLOB NOT NULL,
  name TEXT, name_folded TEXT,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, latest_activity_at INTEGER`, id)
	if l.chain {
		s += fmt.Sprintf(",\n  newest_log_id %[1]s, before_log_id %[1]s", id)
	}
	s += `,
  PRIMARY KEY (tenant_id, account_id), UNIQUE (tenant_id, domain_hash)) STRICT;
`
	s += fmt.Sprintf(`CREATE TABLE account_logs (
  tenant_id %[1]s NOT NULL, account_log_id %[1]s NOT NULL, account_id %[1]s NOT NULL,
  source TEXT NOT NULL, type TEXT NOT NULL, created_at INTEGER NOT NULL, claimed_domain TEXT`, id)
	if !l.splitKeys {
		s += fmt.Sprintf(",\n  idempotency_key %s, fingerprint BLOB", key)
	}
	if l.chain {
		s += fmt.Sprintf(",\n  previous_log_id %s", id)
	}
	if !l.splitPayload {
		// Last, so that reading the other columns never follows an overflow page.
		s += ",\n  payload BLOB NOT NULL"
	}
	switch l.cluster {
	case byRowid:
		s += ",\n  PRIMARY KEY (tenant_id, account_log_id)) STRICT;\n"
	case byID:
		s += ",\n  PRIMARY KEY (tenant_id, account_log_id)) STRICT, WITHOUT ROWID;\n"
	case byAccount:
		s += ",\n  PRIMARY KEY (tenant_id, account_id, account_log_id), UNIQUE (tenant_id, account_log_id)) STRICT, WITHOUT ROWID;\n"
	}
	if l.splitKeys {
		s += fmt.Sprintf(`CREATE TABLE account_log_keys (
  tenant_id %[1]s NOT NULL, idempotency_key %[2]s NOT NULL, account_log_id %[1]s NOT NULL, fingerprint BLOB NOT NULL,
  PRIMARY KEY (tenant_id, idempotency_key)) STRICT, WITHOUT ROWID;
`, id, key)
	} else {
		s += "CREATE UNIQUE INDEX account_logs_key ON account_logs (tenant_id, idempotency_key) WHERE idempotency_key IS NOT NULL;\n"
	}
	if l.splitPayload {
		s += fmt.Sprintf(`CREATE TABLE account_log_payloads (
  tenant_id %[1]s NOT NULL, account_log_id %[1]s NOT NULL, payload BLOB NOT NULL,
  PRIMARY KEY (tenant_id, account_log_id)) STRICT;
`, id)
	}
	if l.timeline {
		s += "CREATE INDEX account_logs_timeline ON account_logs (tenant_id, account_id, account_log_id);\n"
	}
	if l.timelineAt {
		s += "CREATE INDEX account_logs_timeline ON account_logs (tenant_id, account_id, created_at);\n"
	}
	return s
}

// lookupSQL finds the entry of a key: its id and the request's fingerprint.
func (l layout) lookupSQL() string {
	from := "account_logs"
	if l.splitKeys {
		from = "account_log_keys"
	}
	return "SELECT account_log_id, fingerprint FROM " + from + " WHERE tenant_id = ?1 AND idempotency_key = ?2"
}

// touchSQL gets or creates the account of a domain and moves its latest
// activity. It returns the account's id and, in a chain, the id of the entry
// that was the newest before.
func (l layout) touchSQL() string {
	switch {
	case l.untouched:
		return "SELECT account_id FROM accounts WHERE tenant_id = ?1 AND domain_hash = ?4"
	case l.chain:
		return `INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, created_at, updated_at, latest_activity_at, newest_log_id)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?5, ?6)
ON CONFLICT (tenant_id, domain_hash) DO UPDATE SET latest_activity_at = excluded.latest_activity_at,
  before_log_id = newest_log_id, newest_log_id = excluded.newest_log_id
RETURNING account_id, before_log_id`
	default:
		return `INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, created_at, updated_at, latest_activity_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?5)
ON CONFLICT (tenant_id, domain_hash) DO UPDATE SET latest_activity_at = excluded.latest_activity_at
RETURNING account_id`
	}
}

// insertSQL adds an entry. Its parameters are numbered alike in every layout;
// those that a layout does not use are left out: 8 and 9 the key and the
// fingerprint, 10 the payload, 11 the previous entry.
func (l layout) insertSQL() string {
	columns := "tenant_id, account_log_id, account_id, source, type, created_at, claimed_domain"
	values := "?1, ?2, ?3, ?4, ?5, ?6, ?7"
	if !l.splitKeys {
		columns += ", idempotency_key, fingerprint"
		values += ", ?8, ?9"
	}
	if !l.splitPayload {
		columns += ", payload"
		values += ", ?10"
	}
	if l.chain {
		columns += ", previous_log_id"
		values += ", ?11"
	}
	return "INSERT INTO account_logs (" + columns + ") VALUES (" + values + ")"
}

// byIDSQL and byKeySQL read a whole entry.
func (l layout) byIDSQL() string {
	return l.entrySQL() + " WHERE l.tenant_id = ?1 AND l.account_log_id = ?2"
}

func (l layout) byKeySQL() string {
	if l.splitKeys {
		return l.entrySQL() + " JOIN account_log_keys k ON k.tenant_id = l.tenant_id AND k.account_log_id = l.account_log_id" +
			" WHERE k.tenant_id = ?1 AND k.idempotency_key = ?2"
	}
	return l.entrySQL() + " WHERE l.tenant_id = ?1 AND l.idempotency_key = ?2"
}

const entryColumns = "l.account_log_id, l.account_id, l.source, l.type, l.created_at, l.claimed_domain, "

func (l layout) entrySQL() string {
	if l.splitPayload {
		return "SELECT " + entryColumns + "p.payload FROM account_logs l" +
			" JOIN account_log_payloads p ON p.tenant_id = l.tenant_id AND p.account_log_id = l.account_log_id"
	}
	return "SELECT " + entryColumns + "l.payload FROM account_logs l"
}

// timelineSQL reads the 50 newest entries of an account, newest first. It is
// empty where the layout would have to scan for them.
func (l layout) timelineSQL() string {
	switch {
	case l.chain:
		return `WITH RECURSIVE l (n, previous_log_id, account_log_id, account_id, source, type, created_at, claimed_domain, payload) AS (
  SELECT 1, e.previous_log_id, e.account_log_id, e.account_id, e.source, e.type, e.created_at, e.claimed_domain, e.payload
  FROM accounts a JOIN account_logs e ON e.tenant_id = a.tenant_id AND e.account_log_id = a.newest_log_id
  WHERE a.tenant_id = ?1 AND a.account_id = ?2
  UNION ALL
  SELECT l.n + 1, e.previous_log_id, e.account_log_id, e.account_id, e.source, e.type, e.created_at, e.claimed_domain, e.payload
  FROM l JOIN account_logs e ON e.tenant_id = ?1 AND e.account_log_id = l.previous_log_id
  WHERE l.n < 50
) SELECT ` + entryColumns + `l.payload FROM l`
	case l.timeline || l.cluster == byAccount:
		return l.entrySQL() + " WHERE l.tenant_id = ?1 AND l.account_id = ?2 ORDER BY l.account_log_id DESC LIMIT 50"
	case l.timelineAt:
		return l.entrySQL() + " WHERE l.tenant_id = ?1 AND l.account_id = ?2 ORDER BY l.created_at DESC, l.account_log_id DESC LIMIT 50"
	default:
		return ""
	}
}
