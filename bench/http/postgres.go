package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"atrium/internal/store/engine/postgrestest"
)

// This file measures the service on PostgreSQL beside pgbench, which has nothing
// to do but the same statements on the same tables of the same server: an entry
// and its account by one statement in a transaction of its own, and an account
// with its prospects by one select. The server syncs every commit.

// pgbenchClients are as many as let pgbench commit at its best rate here.
const pgbenchClients = 32

const pgbenchTenant = "000000000000000000000000000000000001"

// pgbenchSetup makes accounts with three prospects each, as the service stores
// them, whose identifiers pgbench can compute.
const pgbenchSetup = `
	INSERT INTO tenants (tenant_id, name, created_at) VALUES (decode('%[2]s', 'hex'), 'pgbench', 0);
	INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash, created_at, updated_at, stored_at)
		SELECT decode('%[2]s', 'hex'), decode(lpad(to_hex(n), 36, '0'), 'hex'), 'company-' || n || '.example', decode(lpad(to_hex(n), 32, '0'), 'hex'),
			'Example ' || n, decode(lpad(to_hex(n), 32, '0'), 'hex'), 0, 0, 0 FROM generate_series(0, %[1]d - 1) n;
	INSERT INTO prospects (tenant_id, prospect_id, name, email, domain, slug, phone_number, linkedin_profile_url, created_at, updated_at)
		SELECT decode('%[2]s', 'hex'), decode(lpad(to_hex(n), 36, '0'), 'hex'), 'Person ' || n, 'person' || n || '@company-' || n / 3 || '.example',
			'company-' || n / 3 || '.example', 'person-' || n, '+15555550100', 'https://linkedin.example/in/person-' || n, 0, 0 FROM generate_series(0, 3 * %[1]d - 1) n;
	INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id)
		SELECT decode('%[2]s', 'hex'), decode(lpad(to_hex(n / 3), 36, '0'), 'hex'), 0, decode(lpad(to_hex(n), 36, '0'), 'hex') FROM generate_series(0, 3 * %[1]d - 1) n;
	VACUUM ANALYZE`

// pgbenchWrite stores what a POST stores, with a new key.
const pgbenchWrite = `\set account random(0, %[1]d - 1)
\set high random(1, 9000000000000000000)
\set low random(1, 9000000000000000000)
WITH account AS (
	INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, created_at, updated_at, latest_activity_at, stored_at)
	VALUES (decode('%[2]s', 'hex'), decode(lpad(to_hex(:account::bigint), 36, '0'), 'hex'), 'company.example', decode(lpad(to_hex(:account::bigint), 32, '0'), 'hex'), 1, 1, 1, 1)
	ON CONFLICT (tenant_id, domain_hash) DO UPDATE SET latest_activity_at = excluded.latest_activity_at
	RETURNING account_id)
INSERT INTO entries (tenant_id, entry_id, account_id, created_at, source, type, claimed_domain, idempotency_key, key_match, fingerprint, payload)
SELECT decode('%[2]s', 'hex'), decode('0000' || lpad(to_hex(:high::bigint), 16, '0') || lpad(to_hex(:low::bigint), 16, '0'), 'hex'), account_id, 1, 'bench', 'page.viewed',
	'company.example', to_hex(:high::bigint) || to_hex(:low::bigint), decode(lpad(to_hex(:high::bigint), 16, '0') || lpad(to_hex(:low::bigint), 16, '0'), 'hex'),
	decode(lpad(to_hex(:low::bigint), 64, '0'), 'hex'), decode('%[3]s', 'hex') FROM account
ON CONFLICT DO NOTHING;
`

// pgbenchRead is the statement behind a GET of an account.
const pgbenchRead = `\set account random(0, %[1]d - 1)
SELECT a.account_id, a.domain, a.name, a.created_at, a.updated_at, a.latest_activity_at,
	p.prospect_id, p.name, p.email, p.domain, p.slug, p.phone_number, p.linkedin_profile_url, p.created_at, p.updated_at
FROM accounts a
LEFT JOIN account_prospects l ON l.tenant_id = a.tenant_id AND l.account_id = a.account_id
LEFT JOIN prospects p ON p.tenant_id = l.tenant_id AND p.prospect_id = l.prospect_id
WHERE a.tenant_id = decode('%[2]s', 'hex') AND a.account_id = decode(lpad(to_hex(:account::bigint), 36, '0'), 'hex')
ORDER BY l.prospect_created_at, l.prospect_id;
`

func runPostgres(ctx context.Context, o options) (err error) {
	server, err := postgrestest.Run("shared_buffers=512MB", "max_wal_size=4GB")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if o.database, err = server.Create("bench"); err != nil {
		return err
	}
	nodes := make([]*process, 2)
	for i := range nodes {
		if nodes[i], err = startAtrium(ctx, o); err != nil {
			return err
		}
		defer nodes[i].stop()
	}
	w, err := prepare(ctx, o, nodes[0])
	if err != nil {
		return err
	}
	b := &pgbench{server: server, url: o.database, round: o.round, dir: nodes[0].dir}
	if err := b.prepare(ctx, o, len(w.payload)); err != nil {
		return err
	}
	var beside, two []row
	for _, k := range w.kinds() {
		script := map[string]string{"POST entry": "write", "GET account": "read"}[k.name]
		if script == "" || !o.wants(k.name) {
			continue
		}
		one := func() (result, error) { return load(ctx, o, k, nodes[0]) }
		r, err := measure(o, k.name, one, func() (result, error) { return b.run(ctx, script) })
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		beside = append(beside, r)
		if r, err = measure(o, k.name, func() (result, error) { return load(ctx, o, k, nodes...) }, one); err != nil {
			return fmt.Errorf("%s on two nodes: %w", k.name, err)
		}
		two = append(two, r)
	}
	print(beside, "pgbench")
	fmt.Printf("\n%s; pgbench -M prepared with %d clients runs one statement a transaction on the same tables of the same server, %s\n\n",
		o.describe(), pgbenchClients, b.version)
	print(two, "one node")
	fmt.Printf("\nas many connections, half of them to each of two nodes on the one database\n")
	return ctx.Err()
}

// A pgbench runs scripts on a database.
type pgbench struct {
	server  *postgrestest.Server
	url     string
	dir     string
	round   time.Duration
	version string
}

func (b *pgbench) prepare(ctx context.Context, o options, payload int) error {
	setup := fmt.Sprintf(pgbenchSetup, o.accounts, pgbenchTenant)
	for statement := range strings.SplitSeq(setup, ";\n") {
		out, err := exec.CommandContext(ctx, filepath.Join(b.server.Bin(), "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", b.url, "-c", statement).CombinedOutput()
		if err != nil {
			return fmt.Errorf("prepare for pgbench: %w: %s", err, out)
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(b.server.Bin(), "postgres"), "--version").Output()
	if err != nil {
		return err
	}
	b.version = strings.TrimSpace(string(out))
	hex := strings.Repeat("78", payload)
	return errors.Join(
		os.WriteFile(filepath.Join(b.dir, "write.sql"), fmt.Appendf(nil, pgbenchWrite, o.accounts, pgbenchTenant, hex), 0o600),
		os.WriteFile(filepath.Join(b.dir, "read.sql"), fmt.Appendf(nil, pgbenchRead, o.accounts, pgbenchTenant), 0o600),
	)
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)

func (b *pgbench) run(ctx context.Context, script string) (result, error) {
	seconds := max(1, int(b.round.Seconds()))
	cmd := exec.CommandContext(ctx, filepath.Join(b.server.Bin(), "pgbench"), "-n", "-M", "prepared", "-c", strconv.Itoa(pgbenchClients), "-j", "2",
		"-T", strconv.Itoa(seconds), "-f", filepath.Join(b.dir, script+".sql"), b.url)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("pgbench: %w: %s", err, stderr.String())
	}
	m := tps.FindSubmatch(out)
	if m == nil {
		return result{}, fmt.Errorf("pgbench printed\n%s", out)
	}
	rate, err := strconv.ParseFloat(string(m[1]), 64)
	return result{rate: rate}, err
}
