package register

import (
	"slices"

	"atrium"
)

// Effects that several tables share.
var (
	// Rows that only their own changes affect.
	untouched = Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Kept}
	// Content of sites.
	content = Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Kept}
)

var tables = []*Table{
	{
		// The accounts whose active_minute is not up to date. A job of the source may update minutes
		// and delete these rows during a copy. They come before the accounts, so that a minute is
		// copied after its update, or updated in the target.
		Name: "active_accounts", Kind: Distributed, Key: []string{"batch_id"},
		Rows:    Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Kept},
		Columns: slices.Concat(tenant, columns(Derived, Uncompared, 0, "batch_id bytea", "accounts bytea")),
	},
	{
		Name: "accounts", Kind: Distributed, Key: []string{"account_id"},
		Rows: Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Deleted, Retention: Kept},
		Columns: slices.Concat(tenant,
			columns(Exported, Copied, 0, "account_id bytea", "created_at bigint"),
			columns(Exported, Copied, Erasure, "domain text"),
			columns(Exported, Copied, Import|Merge|Split|Erasure, "name text", "updated_at bigint", "merged_into bytea"),
			columns(Derived, Copied, Erasure, "domain_hash bytea"),
			columns(Derived, Copied, Import|Merge|Split|Erasure, "name_hash bytea", "survivor_id bytea"),
			columns(Derived, Copied, Import|Merge|Split|Erasure|Retention, "latest_activity_at bigint"),
			columns(Derived, Uncompared, Import|Merge|Split|Erasure|Retention, "active_minute bigint"),
			columns(Derived, Copied, 0, "stored_at bigint"),
		),
	},
	{
		Name: "long_domains", Kind: Distributed, Key: []string{"account_id"},
		Rows:    Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Deleted, Retention: Kept},
		Columns: slices.Concat(tenant, columns(Exported, Copied, 0, "account_id bytea", "domain text")),
	},
	{
		Name: "prospects", Kind: Distributed, Key: []string{"prospect_id"},
		Rows: Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Deleted, Retention: Kept},
		Columns: slices.Concat(tenant, columns(Exported, Copied, 0, "prospect_id bytea", "name text", "email text", "domain text", "slug text",
			"phone_number text", "linkedin_profile_url text", "created_at bigint", "updated_at bigint")),
	},
	{
		Name: "account_prospects", Kind: Distributed, Key: []string{"account_id", "prospect_created_at", "prospect_id"},
		Rows: Rows{Import: Added, Merge: Added, Split: Deleted, Erasure: Deleted, Retention: Kept},
		Columns: slices.Concat(tenant,
			columns(Exported, Copied, 0, "account_id bytea", "prospect_created_at bigint", "prospect_id bytea"),
			columns(Derived, Copied, Import, "via bytea"),
		),
	},
	{
		Name: "search_terms", Kind: Distributed, Key: []string{"term", "subject_id"},
		Rows:    Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Deleted, Retention: Kept},
		Columns: slices.Concat(tenant, columns(Derived, Copied, 0, "term text", "subject_id bytea")),
	},
	{
		Name: "entries", Kind: Distributed, Key: []string{"entry_id"},
		Rows: Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Deleted, Retention: Deleted},
		Columns: slices.Concat(tenant,
			columns(Exported, Copied, 0, "entry_id bytea", "account_id bytea", "created_at bigint", "source text", "type text", "claimed_account_id bytea",
				"claimed_domain text", "claimed_name text", "idempotency_key text", "payload bytea", "acknowledged_account_id bytea", "occurred_at bigint"),
			columns(Derived, Copied, Erasure, "key_match bytea"),
			columns(Derived, Copied, 0, "fingerprint bytea", "submitted_by bytea"), // an import is the submitter
			columns(Omitted, Copied, Erasure|Retention, "move_id bytea"),
			columns(Omitted, Copied, 0, "rule bigint", "request_id bytea"),
		),
	},
	{ // a job and imports add rows; copies leave them to the job of the target
		Name: "entry_counts", Kind: Distributed, Key: []string{"pass", "hours", "starts_at", "source", "type"},
		Rows: Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Kept},
		Columns: slices.Concat(columns(Derived, Excluded, 0, "tenant_id bytea", "pass bigint", "hours bigint", "starts_at bigint", "source text", "type text"),
			columns(Derived, Excluded, Import|Erasure|Retention, "entries bigint")),
	},
	{
		Name: "entry_count_types", Kind: Distributed, Key: []string{"pass", "source", "type"},
		Rows:    Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Kept},
		Columns: columns(Derived, Excluded, 0, "tenant_id bytea", "pass bigint", "source text", "type text"),
	},
	{
		Name: "entry_counting", Kind: Distributed, Rows: untouched,
		Columns: slices.Concat(columns(Derived, Excluded, 0, "tenant_id bytea", "pass bigint", "untimely_after bytea", "timely_after bytea", "recounted_at bigint"),
			columns(Derived, Excluded, Import|Erasure|Retention, "version bigint", "types bigint", "next_types bigint", "next_untimely_after bytea", "next_timely_after bytea")),
	},
	{
		Name: "moves", Kind: Distributed, Key: []string{"move_id"},
		Rows: untouched,
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "move_id bytea", "from_account_id bytea", "to_account_id bytea", "moved bigint", "created_at bigint", "undone_at bigint"),
			columns(Omitted, Copied, Erasure|Retention, "rule bytea"),
		),
	},
	{
		Name: "moved_entries", Kind: Distributed, Key: []string{"move_id", "entry_id"},
		Rows:    Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Deleted, Retention: Deleted},
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "move_id bytea", "entry_id bytea", "from_account_id bytea", "previous_move_id bytea")),
	},
	{
		Name: "brands", Kind: Distributed, Key: []string{"brand_id"}, Rows: content,
		Columns: slices.Concat(tenant,
			columns(Exported, Copied, 0, "brand_id bytea", "name text", "created_at bigint", "updated_at bigint"),
			columns(Derived, Copied, 0, "stored_at bigint"),
		),
	},
	{
		Name: "pages", Kind: Distributed, Key: []string{"page_id"}, Rows: content,
		Columns: slices.Concat(tenant,
			columns(Exported, Copied, 0, "page_id bytea", "brand_id text", "name text", "page_context text", "title text", "status text",
				"header_action_id text", "created_at bigint", "updated_at bigint", "deleted_at bigint", "actions bytea", "scripts bytea",
				"footer_links bytea", "metadata bytea", "public bigint", "max_age bigint"),
			columns(Derived, Copied, Import, "audiences_count bigint"),
			columns(Derived, Copied, 0, "stored_at bigint"),
		),
	},
	{
		Name: "audiences", Kind: Distributed, Key: []string{"audience_id"}, Rows: content,
		Columns: slices.Concat(tenant,
			columns(Exported, Copied, 0, "audience_id bytea", "page_id bytea", "name text", "archived bigint", "created_at bigint", "updated_at bigint"),
			columns(Exported, Copied, Import, "published_number bigint"),
			columns(Derived, Copied, Import, "versions_count bigint", "last_number bigint"),
			columns(Derived, Copied, 0, "stored_at bigint"),
		),
	},
	{ // with keep-versions, a new version deletes old ones
		Name: "versions", Kind: Distributed, Key: []string{"audience_id", "number"}, Rows: content,
		Columns: slices.Concat(tenant, columns(Exported, Copied, 0, "audience_id bytea", "number bigint", "version_id bytea", "archived bigint",
			"created_at bigint", "content bytea", "note text")),
	},
	{ // hashes of tokens; a new one deletes those that have expired
		Name: "previews", Kind: Distributed, Key: []string{"page_id", "preview_id"},
		Rows: untouched,
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "page_id bytea", "preview_id bytea", "audience_id bytea", "number bigint",
			"secret_hash bytea", "created_at bigint", "expires_at bigint")),
	},
	{ // exported separately, by atrium audit export
		Name: "audit", Kind: Distributed, Key: []string{"number"},
		Rows: Rows{Import: Added, Merge: Added, Split: Added, Erasure: Added, Retention: Added},
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "number bigint", "at bigint", "actor text", "action text", "subject text", "request_id text",
				"detail_hash bytea", "hash bytea"),
			columns(Omitted, Copied, Erasure|Retention, "detail bytea", "salt bytea"),
		),
	},
	{
		Name: "audit_heads", Kind: Distributed, Rows: untouched,
		Columns: slices.Concat(tenant, columns(Omitted, Copied, Import|Merge|Split|Erasure|Retention, "number bigint", "hash bytea")),
	},
	{ // stored results of requests with an idempotency key, which expire
		Name: "requests", Kind: Distributed, Key: []string{"key_match"},
		Rows:   Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Deleted},
		Expiry: Expiry{"created_at", RequestRetention},
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "key_match bytea", "fingerprint bytea", "created_at bigint"),
			columns(Omitted, Copied, Erasure, "result bytea"),
		),
	},
	{ // the first tombstone adds the row, and imports from other databases add secrets to it
		Name: "tombstone_secrets", Kind: Distributed, Rows: untouched,
		Columns: slices.Concat(tenant, columns(Exported, Copied, Import, "secrets bytea")),
	},
	{ // the first import of prospects that are matched by their values adds the row; no export may contain it
		Name: "prospect_secrets", Kind: Distributed, Rows: untouched,
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "secret bytea")),
	},
	{ // what remains of erased entries
		Name: "tombstones", Kind: Distributed, Key: []string{"entry_id"},
		Rows:   Rows{Import: Added, Merge: Kept, Split: Kept, Erasure: Added, Retention: Replaced},
		Expiry: Expiry{"expires_at", 0},
		Columns: slices.Concat(tenant,
			columns(Exported, Copied, 0, "entry_id bytea", "account_id bytea", "created_at bigint", "source text", "type text",
				"key_hmac bytea", "request_hmac bytea", "expires_at bigint"),
			columns(Derived, Copied, 0, "secret_number bigint"),
		),
	},
	{ // retention rules
		Name: "retention", Kind: Distributed, Rows: untouched,
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "rules bytea", "updated_at bigint"),
			columns(Omitted, Uncompared, Retention, "version bigint", "scan_days bigint", "scan_until bigint", "scan_after bytea",
				"applied_until bigint", "swept_at bigint", "deleted bigint", "deleted_since bigint"),
		),
	},
	{
		Name: "summary_templates", Kind: Distributed, Key: []string{"source", "type"}, Rows: untouched,
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "source text", "type text", "template text")),
	},
	{ // erasures of persons
		Name: "erasure_jobs", Kind: Distributed, Key: []string{"erasure_id"}, Rows: untouched,
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "erasure_id bytea", "account_id bytea", "actor text", "created_at bigint"),
			columns(Omitted, Copied, Erasure, "rule bytea", "stage bigint", "position_key bigint", "position_text text", "entries bigint",
				"prospects bigint", "quarantined bigint", "completed_at bigint"),
		),
	},
	{ // a sequencer of the source must not run during a copy: it changes what is compared
		Name: "event_feeds", Kind: Distributed, Rows: untouched,
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "enabled bigint", "enabled_at bigint", "next_position bigint")),
	},
	{ // events without a position
		Name: "event_outbox", Kind: Distributed, Key: []string{"at", "outbox_id"},
		Rows:    Rows{Import: Kept, Merge: Added, Split: Added, Erasure: Added, Retention: Kept},
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "at bigint", "outbox_id bytea", "refs bytea")),
	},
	{
		Name: "event_log", Kind: Distributed, Key: []string{"first_position"},
		Rows:    Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Deleted},
		Expiry:  Expiry{"at", atrium.MinEventRetention},
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "first_position bigint", "last_position bigint", "at bigint", "refs bytea")),
	},
	{ // what an installation has refused; a new row deletes the oldest of many
		Name: "refused_requests", Kind: Distributed, Key: []string{"at", "refused_id"},
		Rows:   Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Deleted},
		Expiry: Expiry{"at", atrium.RefusedRequestLife},
		Columns: columns(Omitted, Excluded, 0, "tenant_id bytea", "at bigint", "refused_id bytea", "count bigint", "request_id text", "method text",
			"route text", "status bigint", "code text", "detail text", "faults bytea", "key_id bytea", "user_id bytea", "user_agent text"),
	},
	{ // who has read personal data; users add rows during a copy
		Name: "reads", Kind: Distributed, Key: []string{"at", "read_id"},
		Rows:   Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Deleted},
		Expiry: Expiry{"at", atrium.ReadLife},
		Columns: slices.Concat(tenant, columns(Omitted, Uncompared, 0, "at bigint", "read_id bytea", "count bigint", "request_id text", "kind text",
			"subject text", "route text", "actor text")),
	},
	{ // copies are disabled: two databases must not deliver the same events
		Name: "webhooks", Kind: Distributed, Key: []string{"webhook_id"}, Rows: untouched,
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "webhook_id bytea", "description text", "url text", "event_types bytea", "sources bytea", "entry_types bytea",
				"account_id bytea", "filter text", "format text", "ordered bigint", "rate_limit bigint", "created_at bigint"),
			columns(Omitted, Uncompared, 0, "updated_at bigint", "position bigint"), // the delivery of events changes them
			columns(Omitted, Excluded, 0, "disabled_reason text", "disabled_at bigint", "failing_since bigint", "behind_since bigint", "lost bigint",
				"filter_faults bigint", "idle bigint", "owner bytea", "leased_until bigint", "epoch bigint", "results bigint"),
		),
	},
	{ // encrypted
		Name: "webhook_secrets", Kind: Distributed, Key: []string{"webhook_id", "secret_id"}, Rows: untouched, Sealed: "sealed",
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "webhook_id bytea", "secret_id bytea", "kind text", "created_at bigint", "expires_at bigint"),
			columns(Omitted, Uncompared, 0, "sealed bytea"),
		),
	},
	{ // the log of deliveries stays in the database that has delivered
		Name: "deliveries", Kind: Distributed, Key: []string{"webhook_id", "position"},
		Rows:   Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Deleted},
		Expiry: Expiry{"finished_at", atrium.MinDeliveryRetention},
		Columns: columns(Omitted, Excluded, 0, "tenant_id bytea", "webhook_id bytea", "position bigint", "event_id bytea", "type text", "subject text",
			"entry_id bytea", "state bigint", "attempts bigint", "earlier bigint", "next_at bigint", "created_at bigint", "finished_at bigint",
			"status bigint", "error text", "latency bigint"),
	},
	{
		Name: "delivery_attempts", Kind: Distributed, Key: []string{"webhook_id", "position", "number"},
		Rows:   Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Deleted},
		Expiry: Expiry{"at", atrium.MinDeliveryRetention},
		Columns: columns(Omitted, Excluded, 0, "tenant_id bytea", "webhook_id bytea", "position bigint", "number bigint", "at bigint", "duration bigint",
			"status bigint", "error text", "response bytea"),
	},
	{
		Name: "webhook_hours", Kind: Distributed, Key: []string{"webhook_id", "starts_at"},
		Rows:   Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Deleted},
		Expiry: Expiry{"starts_at", atrium.MinDeliveryRetention},
		Columns: columns(Omitted, Excluded, 0, "tenant_id bytea", "webhook_id bytea", "starts_at bigint", "attempts bigint", "succeeded bigint",
			"latency bigint", "max_latency bigint"),
	},
	{
		Name: "webhook_replays", Kind: Distributed, Key: []string{"webhook_id", "replay_id"},
		Rows:   Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Kept, Retention: Deleted},
		Expiry: Expiry{"finished_at", atrium.MinDeliveryRetention},
		Columns: columns(Omitted, Excluded, 0, "tenant_id bytea", "webhook_id bytea", "replay_id bytea", "first_position bigint", "last_position bigint",
			"position bigint", "rate bigint", "failed_only bigint", "scheduled bigint", "actor text", "created_at bigint", "finished_at bigint"),
	},
	{
		Name: "receivers", Kind: Distributed, Key: []string{"receiver_id"}, Rows: untouched,
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "receiver_id bytea", "name text", "provider text", "verification bytea", "source text",
			"mapping bytea", "enabled bigint", "created_at bigint", "updated_at bigint")),
	},
	{ // encrypted
		Name: "receiver_secrets", Kind: Distributed, Key: []string{"receiver_id", "secret_id"}, Rows: untouched, Sealed: "sealed",
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "receiver_id bytea", "secret_id bytea", "created_at bigint", "expires_at bigint"),
			columns(Omitted, Uncompared, 0, "sealed bytea"),
		),
	},
	{
		Name: "quarantine", Kind: Distributed, Key: []string{"receiver_id", "quarantined_id"},
		Rows:   Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Deleted, Retention: Deleted},
		Expiry: Expiry{"received_at", atrium.MinQuarantineRetention},
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "receiver_id bytea", "quarantined_id bytea", "received_at bigint", "request_id text",
			"fault text", "query text", "headers bytea", "body bytea")),
	},
	{ // counted again in the target
		Name: "quarantine_totals", Kind: Distributed, Rows: untouched,
		Columns: slices.Concat(columns(Omitted, Excluded, 0, "tenant_id bytea"), columns(Omitted, Excluded, Erasure|Retention, "deliveries bigint", "bytes bigint")),
	},
	{ // a tenant that is being deleted has a row, and copies leave it out
		Name: "tenant_deletions", Kind: Distributed, Rows: untouched,
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "actor text", "deleted_rows bigint", "deleted_entries bigint")),
	},
	{
		Name: "tenants", Kind: Reference, Rows: untouched,
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "name text", "created_at bigint"),
			columns(Omitted, Excluded, Deletion, "deleting_at bigint"), // null: a copy leaves out what is being deleted
		),
	},
	{ // hashes of the keys; those of operators have no tenant
		Name: "api_keys", Kind: Reference, Key: []string{"key_id"}, Rows: untouched,
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "key_id bytea", "name text", "scopes text", "secret_hash bytea", "created_at bigint", "expires_at bigint",
				"revoked_at bigint", "previous_hash bytea", "previous_ends_at bigint", "origins text"),
			columns(Omitted, Uncompared, 0, "last_used_at bigint"),
		),
	},
	{ // people who use the console
		Name: "users", Kind: Reference, Key: []string{"user_id"}, Rows: untouched,
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "user_id bytea", "name text", "role text", "issuer text", "subject text", "created_at bigint", "updated_at bigint")),
	},
	{ // groups of an identity provider, each with a role
		Name: "group_mappings", Kind: Reference, Key: []string{"mapping_id"}, Rows: untouched,
		Columns: slices.Concat(tenant,
			columns(Omitted, Copied, 0, "mapping_id bytea", "issuer text", "group_name text", "role text", "created_at bigint")),
	},
	{ // people sign in to each installation, so neither sessions nor links are copied
		Name: "sessions", Kind: Reference, Key: []string{"user_id", "session_id"}, Rows: untouched,
		Columns: slices.Concat(columns(Omitted, Excluded, 0, "tenant_id bytea", "session_id bytea", "user_id bytea", "secret_hash bytea", "browser text",
			"created_at bigint", "used_at bigint", "expires_at bigint")),
	},
	{
		Name: "login_links", Kind: Reference, Key: []string{"user_id"}, Rows: untouched,
		Columns: columns(Omitted, Excluded, 0, "tenant_id bytea", "user_id bytea", "link_id bytea", "secret_hash bytea", "expires_at bigint"),
	},
	{ // requests name only the receiver
		Name: "receiver_tenants", Kind: Reference, Key: []string{"receiver_id"}, Rows: untouched,
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "receiver_id bytea")),
	},
	{
		Name: "schedules", Kind: Reference, Key: []string{"page_id", "action"}, Rows: content,
		Columns: slices.Concat(tenant,
			columns(Exported, Copied, 0, "page_id bytea", "action text", "due_at bigint"),
			columns(Derived, Copied, 0, "actor text", "created_at bigint"),
		),
	},
	{ // when nodes look at webhooks, those of all tenants
		Name: "webhook_due", Kind: Reference, Key: []string{"webhook_id"}, Rows: untouched,
		Columns: columns(Omitted, Excluded, 0, "tenant_id bytea", "webhook_id bytea", "due_at bigint"),
	},
	{ // erased accounts whose data is not deleted yet
		Name: "erasures", Kind: Reference, Key: []string{"account_id"},
		Rows:    Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Replaced, Retention: Kept},
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "account_id bytea", "requested_at bigint")),
	},
	{ // erasures of persons that are not complete
		Name: "pending_erasures", Kind: Reference, Key: []string{"erasure_id"},
		Rows:    Rows{Import: Kept, Merge: Kept, Split: Kept, Erasure: Deleted, Retention: Kept},
		Columns: slices.Concat(tenant, columns(Omitted, Copied, 0, "erasure_id bytea")),
	},
}
