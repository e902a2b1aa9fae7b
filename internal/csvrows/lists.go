package csvrows

// Lists are the columns of the lists of the management API as CSV, by path.
var Lists = map[string][]string{
	"/accounts":          {"accountId", "domain", "name", "latestActivityAt", "createdAt"},
	"/activity/accounts": {"accountId", "domain", "name", "entries"},
	"/account_logs": {
		"accountLogId", "accountId", "createdAt", "source", "type", "claimed.domain", "claimed.name", "rule", "idempotencyKey",
	},
	"/prospects": {"prospectId", "name", "email", "domain", "updatedAt", "slug", "phoneNumber", "linkedinProfileUrl", "createdAt"},
	"/pages":     {"pageId", "name", "title", "status", "brandId", "audiencesCount", "updatedAt", "deletedAt"},
	"/keys":      {"keyId", "name", "scopes", "createdAt", "lastUsedAt", "expiresAt", "previousEndsAt", "revokedAt"},
	"/users":     {"userId", "name", "role", "createdAt", "updatedAt"},
	"/moves":     {"moveId", "fromAccountId", "toAccountId", "moved", "createdAt", "undoneAt", "rule"},
	"/refused_requests": {
		"at", "count", "status", "code", "method", "route", "keyId", "userId", "actorName", "requestId", "userAgent", "detail", "errors",
	},
	"/reads":    {"at", "count", "actor", "actorName", "kind", "subject", "route", "requestId"},
	"/webhooks": {"webhookId", "description", "url", "enabled", "disabledReason", "progress.behind", "progress.failingSince", "progress.lost"},
	"/webhooks/{webhook_id}/deliveries": {
		"eventId", "position", "type", "state", "attempts", "status", "error", "nextAt", "finishedAt",
	},
	"/audit": {"number", "at", "actor", "actorName", "action", "subject", "requestId", "detail"},
}
