package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"atrium/bench/load"
	"atrium/bench/server"
	"atrium/bench/workload"
	"atrium/internal/store/engine/postgrestest"
)

// This file measures the service on PostgreSQL against pgbench, which executes only the
// same statements on the same tables of the same server: one statement that stores an
// entry and its account, in its own transaction, and one select of an account with its
// prospects. The server syncs every commit.

// pgbenchClients is the number of clients at which pgbench had its highest commit rate
// here.
const pgbenchClients = 32

const pgbenchTenant = "000000000000000000000000000000000001"

// pgbenchSetup creates accounts with three prospects each, in the service's stored form,
// with identifiers that pgbench can compute.
const pgbenchSetup = `
	INSERT INTO tenants (tenant_id, name, created_at) VALUES (decode('%[2]s', 'hex'), 'pgbench', 0);
	INSERT INTO accounts (tenant_id, account_id, domain, domain_hash, name, name_hash, created_at, updated_at, stored_at)
		SELECT decode('%[2]s', 'hex'), decode(lpad(to_hex(n), 36, '0'), 'hex'), 'company-' || n || '.example', decode(lpad(to_hex(n), 32, '0'), 'hex'),
			'Example ' || n, decode(lpad(to_hex(n), 32, '0'), 'hex'), 0, 0, 0 FROM generate_series(0, %[1]d - 1) n;
	INSERT INTO prospects (tenant_id, prospect_id, name, email, domain, slug, phone_number, linkedin_profile_url, created_at, updated_at)
		SELECT decode('%[2]s', 'hex'), decode(lpad(to_hex(n), 36, '0'), 'hex'), 'Person ' || n, 'person' || n || '@company-' || n / 3 || '.example',
			'company-' || n / 3 || '.example', 'person-' || n, '+15555550100', 'https://linkedin.example/in/person-' || n, 0, 0 FROM generate_series(0, 3 * %[1]d - 1) n;
	INSERT INTO account_prospects (tenant_id, account_id, prospect_created_at, prospect_id)
		SELECT decode('%[2]s', 'hex'), decode(lpad(to_hex(n / 3), 36, '0'), 'hex'), 0, decode(lpad(to_hex(n), 36, '0'), 'hex') FROM generate_series(0, 3 * %[1]d - 1) n`

// pgbenchWrite stores what a POST stores, with a new key, and locks the account as a POST does.
const pgbenchWrite = `\set account random(0, %[1]d - 1)
\set high random(1, 9000000000000000000)
\set low random(1, 9000000000000000000)
WITH account AS (
	SELECT account_id FROM accounts
	WHERE tenant_id = decode('%[2]s', 'hex') AND domain_hash = decode(lpad(to_hex(:account::bigint), 32, '0'), 'hex') FOR KEY SHARE)
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

// startPostgres starts a temporary server with an empty database and returns its URL.
func startPostgres() (*postgrestest.Server, string, error) {
	db, err := postgrestest.Run("shared_buffers=512MB", "max_wal_size=4GB")
	if err != nil {
		return nil, "", err
	}
	url, err := db.Create("bench")
	if err != nil {
		return nil, "", errors.Join(err, db.Close())
	}
	return db, url, nil
}

// settle makes a server collect statistics once every table has rows. Until then it uses
// plans for empty tables, for up to a minute.
func (o options) settle(ctx context.Context, bin, url string, kinds []load.Kind, nodes ...*server.Atrium) error {
	for _, k := range kinds {
		if k.Name != workload.PostEntry && k.Name != workload.PatchName {
			continue
		}
		for _, node := range nodes {
			if _, err := o.requests(k, node)(ctx); err != nil {
				return err
			}
		}
	}
	return psql(ctx, bin, url, "VACUUM ANALYZE")
}

func psql(ctx context.Context, bin, url, statement string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statement).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// postgres measures nodes on a temporary server, which syncs every commit.
func (r *report) postgres(ctx context.Context) (err error) {
	say("PostgreSQL: %d accounts", r.accounts)
	db, database, err := startPostgres() //nolint:contextcheck // it is for tests, and takes no context
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	nodes := make([]*server.Atrium, 2)
	for i := range nodes {
		if nodes[i], err = r.startAtrium(ctx, database); err != nil {
			return err
		}
		defer nodes[i].Stop()
	}
	w, err := workload.Prepare(ctx, nodes[0], r.size())
	if err != nil {
		return err
	}
	bare, err := server.StartBare(ctx)
	if err != nil {
		return err
	}
	defer bare.Stop()
	b, err := r.preparePgbench(ctx, db, database)
	if err != nil {
		return err
	}
	defer b.close()
	if err := r.settle(ctx, db.Bin(), database, w.Kinds(), nodes...); err != nil {
		return err
	}
	r.versions = append(r.versions, b.version)
	scripts := map[string]string{workload.PostEntry: "write", workload.GetAccount: "read"}
	for _, k := range w.Kinds() {
		if !r.wants(k.Name) {
			continue
		}
		say("PostgreSQL: %s", k.Name)
		size, err := sizeOf(nodes[0].Addr(), k)
		if err != nil {
			return err
		}
		one := r.requests(k, nodes[0])
		subjects := []subject{one, r.requests(server.BareKind(bare.Addr(), size), bare)}
		references := []string{"bare net/http"}
		if script := scripts[k.Name]; script != "" {
			subjects, references = append(subjects, b.script(script)), append(references, fmt.Sprintf("pgbench, %d clients", pgbenchClients))
		}
		figures, err := alternate(ctx, r.rounds, subjects...)
		if err != nil {
			return fmt.Errorf("%s: %w", k.Name, err)
		}
		for i, name := range references {
			r.pairs = append(r.pairs, pair{"PostgreSQL", k.Name, name, size, figures[0], figures[1+i]})
		}
		if scripts[k.Name] == "" {
			continue
		}
		// The same number of connections, half of them to each node.
		figures, err = alternate(ctx, r.rounds, r.requests(k, nodes[0], nodes[1]), one)
		if err != nil {
			return fmt.Errorf("%s on two nodes: %w", k.Name, err)
		}
		r.pairs = append(r.pairs, pair{"PostgreSQL, two nodes", k.Name, "one node", size, figures[0], figures[1]})
	}
	return ctx.Err()
}

// A pgbench runs scripts on a database.
type pgbench struct {
	bin     string
	url     string
	dir     string
	seconds int // per round; whole seconds only, and at least 2: connecting may take one on a busy machine
	version string
}

func (o options) preparePgbench(ctx context.Context, db *postgrestest.Server, url string) (b *pgbench, err error) {
	b = &pgbench{bin: db.Bin(), url: url, seconds: max(2, int(o.round.Seconds()))}
	for statement := range strings.SplitSeq(fmt.Sprintf(pgbenchSetup, o.accounts, pgbenchTenant), ";\n") {
		if err := psql(ctx, b.bin, b.url, statement); err != nil {
			return nil, fmt.Errorf("prepare for pgbench: %w", err)
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(b.bin, "postgres"), "--version").Output()
	if err != nil {
		return nil, err
	}
	b.version = strings.ReplaceAll(strings.TrimSpace(string(out)), "postgres (PostgreSQL)", "PostgreSQL")
	if b.dir, err = os.MkdirTemp("", "atrium-bench-"); err != nil {
		return nil, err
	}
	hex := hex.EncodeToString([]byte(workload.Payload(o.payload)))
	return b, errors.Join(
		os.WriteFile(filepath.Join(b.dir, "write.sql"), fmt.Appendf(nil, pgbenchWrite, o.accounts, pgbenchTenant, hex), 0o600),
		os.WriteFile(filepath.Join(b.dir, "read.sql"), fmt.Appendf(nil, pgbenchRead, o.accounts, pgbenchTenant), 0o600),
	)
}

func (b *pgbench) close() { _ = os.RemoveAll(b.dir) }

// script returns the subject that runs a script.
func (b *pgbench) script(name string) subject {
	return func(ctx context.Context) (figure, error) {
		cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "pgbench"), "-n", "-M", "prepared", "-c", strconv.Itoa(pgbenchClients), "-j", "2",
			"-T", strconv.Itoa(b.seconds), "-f", filepath.Join(b.dir, name+".sql"), b.url)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return figure{}, fmt.Errorf("pgbench: %w: %s", err, stderr.String())
		}
		rate, err := rateOf(out)
		return figure{rate: rate}, err
	}
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)

// rateOf parses the transactions per second from the output of pgbench.
func rateOf(printed []byte) (float64, error) {
	m := tps.FindSubmatch(printed)
	if m == nil {
		return 0, fmt.Errorf("pgbench printed\n%s", printed)
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
