package provider

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// The fixed sets of the API. A test compares them with its document.
var (
	scopes = []string{
		"account_logs:write", "accounts:read", "accounts:write", "pages:read", "content:read", "manage", "manage:accounts", "manage:erase", "manage:events",
		"manage:keys", "manage:pages", "manage:read", "manage:receivers", "manage:users",
	}
	eventTypes = []string{
		"account_log.created", "account_log.erased", "account.created", "account.updated", "account.merged", "account.split", "account.erased", "move.completed",
		"page.created", "page.updated", "page.published", "page.unpublished", "page.archived", "audience.version.created", "audience.version.published",
		"key.expiring", "webhook.disabled", "webhook.exhausted", "webhook.test",
	}
	formats           = []string{"standard", "legacy", "cloudevents"}
	receiverProviders = []string{
		"github", "stripe", "hubspot", "slack", "shopify", "intercom", "segment", "meta", "standard_webhooks", "hmac", "token", "basic",
	}
	algorithms = []string{"sha1", "sha256", "sha512"}
	encodings  = []string{"hex", "base64"}
	statuses   = []string{"archived", "draft", "published"}
)

// stringCheck is a validator of texts.
type stringCheck struct {
	must  string // completes "must be"
	valid func(string) bool
}

func checkString(must string, valid func(string) bool) validator.String {
	return stringCheck{must, valid}
}

func (c stringCheck) Description(context.Context) string             { return "must be " + c.must }
func (c stringCheck) MarkdownDescription(ctx context.Context) string { return c.Description(ctx) }

func (c stringCheck) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if v := req.ConfigValue; !v.IsNull() && !v.IsUnknown() && !c.valid(v.ValueString()) {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid value", "It must be "+c.must+".")
	}
}

func isID(kind string) validator.String {
	return checkString("the identifier of a "+kind+", such as "+kind+"_01kjpx722sf2x8m1c3v5b7n9qa", idPattern(kind).MatchString)
}

// length bounds the number of code points of a text.
func length(least, most int) validator.String { return stringvalidator.UTF8LengthBetween(least, most) }

// isTime accepts times in RFC 3339.
func isTime() validator.String {
	return checkString("a time in RFC 3339, such as 2026-03-20T08:00:00Z", func(s string) bool { _, err := time.Parse(time.RFC3339, s); return err == nil })
}

// isArray accepts JSON arrays.
func isArray() validator.String {
	return checkString("a JSON array, such as jsonencode([…])", func(s string) bool {
		var array []json.RawMessage
		return json.Unmarshal([]byte(s), &array) == nil && array != nil
	})
}

// isValue accepts all of JSON but null.
func isValue() validator.String {
	return checkString("a JSON value other than null; leave it out instead", func(s string) bool { return json.Valid([]byte(s)) && strings.TrimSpace(s) != "null" })
}

// isOrigin accepts origins without the default port, in the form in which the API returns them.
func isOrigin() validator.String {
	return checkString("an origin without its default port, such as https://www.example.com", func(s string) bool {
		scheme, host, ok := strings.Cut(s, "://")
		port := map[string]string{"https": ":443", "http": ":80"}[scheme]
		return ok && port != "" && host != "" && len(s) <= maxOrigin && !strings.HasSuffix(host, port) && strings.ToLower(s) == s && !strings.ContainsAny(host, "/?#@ ")
	})
}

const maxOrigin = 267
