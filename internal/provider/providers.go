package provider

import (
	"strings"

	"atrium"
)

// firstText returns the expression for the first of some optional values that is a text other than "".
func firstText(values ...string) string {
	return "[?" + strings.Join(values, ", ?") + "].filter(e, type(e) == string && e != '')[?0]"
}

// providers are in the order of atrium.ReceiverProviders.
var providers = []Provider{
	{
		Name: atrium.ProviderGitHub, Title: "GitHub",
		Steps: []string{
			"In the settings of the repository or organization, open Webhooks and add a webhook.",
			"Set Payload URL to the address of the receiver and Content type to application/json.",
			"Set Secret to the secret of the receiver, and choose the events.",
		},
		headers: []string{"x-hub-signature", "x-hub-signature-256"},
		verify:  hexSHA256.inHeader("x-hub-signature-256", "sha256="),
		Mapping: atrium.Mapping{
			Type:    `headers[?"x-github-event"].orValue("webhook") + (type(body.?action.orValue(null)) == string ? "." + body.action : "")`,
			Name:    `body.?organization.?login`,
			EventID: `headers[?"x-github-delivery"]`,
		},
	},
	{
		Name: atrium.ProviderStripe, Title: "Stripe", GeneratesSecret: true,
		Steps: []string{
			"In the Stripe dashboard, open Developers, then Webhooks, and add an endpoint with the address of the receiver.",
			"Choose the events, then reveal the signing secret of the endpoint and copy it to the receiver.",
		},
		headers: []string{"stripe-signature"},
		verify:  stripe,
		Mapping: atrium.Mapping{
			Type:       `body.?type`,
			Email:      firstText(`body.?data.?object.?customer_email`, `body.?data.?object.?receipt_email`, `body.?data.?object.?customer_details.?email`, `body.?data.?object.?billing_details.?email`, `body.?data.?object.?email`),
			OccurredAt: `body.?created`,
			EventID:    `body.?id`,
		},
	},
	{
		Name: atrium.ProviderHubSpot, Title: "HubSpot", GeneratesSecret: true,
		Steps: []string{
			"Set public-url of the server: HubSpot signs the address that it calls.",
			"In the settings of the HubSpot app, open Webhooks, set the target URL to the address of the receiver, and create subscriptions.",
			"Copy the client secret of the app to the receiver.",
		},
		headers: []string{"x-hubspot-signature", "x-hubspot-signature-v3"},
		verify:  hubspot,
		Mapping: atrium.Mapping{
			Type:       `body.?subscriptionType`,
			Domain:     `body.?propertyName.orValue("") == "domain" ? body.?propertyValue.orValue("") : ""`,
			Email:      `body.?propertyName.orValue("") == "email" ? body.?propertyValue.orValue("") : ""`,
			OccurredAt: `body.?occurredAt`,
			// HubSpot does not promise that eventId is unique.
			EventID: `has(body.eventId) ? [?body.?portalId, ?body.?subscriptionId, ?body.?eventId, ?body.?objectId, ?body.?occurredAt].map(part, string(part)).join(".") : ""`,
		},
	},
	{
		Name: atrium.ProviderSlack, Title: "Slack", GeneratesSecret: true, EmptyResponse: true,
		Steps: []string{
			"Copy the signing secret from Basic Information of the Slack app to the receiver.",
			"In Event Subscriptions, set Request URL to the address of the receiver. Slack sends a challenge at once, which the receiver answers.",
			"The same address can be that of slash commands and of interactivity.",
		},
		headers: []string{"x-slack-signature"},
		verify:  slack,
		Mapping: atrium.Mapping{
			Type:       `body.?event.?type.or(body.?type).orValue("slash_command")`,
			OccurredAt: `body.?event_time`,
			EventID:    `body.?event_id.or(body.?trigger_id).or(body.?form.?trigger_id[?0])`,
		},
	},
	{
		Name: atrium.ProviderShopify, Title: "Shopify", GeneratesSecret: true,
		Steps: []string{
			"In the settings of the shop, open Notifications, then Webhooks, and create a webhook in JSON with the address of the receiver.",
			"Copy the key below the list, with which Shopify signs all of them, to the receiver. For an app, this is its client secret.",
		},
		headers: []string{"x-shopify-hmac-sha256"},
		verify:  base64SHA256.inHeader("x-shopify-hmac-sha256", ""),
		Mapping: atrium.Mapping{
			Type:       `headers[?"x-shopify-topic"]`,
			Email:      firstText(`body.?email`, `body.?contact_email`, `body.?customer.?email`),
			OccurredAt: `headers[?"x-shopify-triggered-at"]`,
			EventID:    `headers[?"x-shopify-webhook-id"]`,
		},
	},
	{
		Name: atrium.ProviderIntercom, Title: "Intercom", GeneratesSecret: true,
		Steps: []string{
			"In the Intercom developer hub, open Webhooks of the app, set the endpoint to the address of the receiver, and choose the topics.",
			"Copy the client secret of the app to the receiver.",
		},
		headers: []string{"x-hub-signature"},
		verify:  hexSHA1.inHeader("x-hub-signature", "sha1="),
		Mapping: atrium.Mapping{
			Type:       `body.?topic`,
			Email:      firstText(`body.?data.?item.?contact.?email`, `body.?data.?item.?user.?email`, `body.?data.?item.?source.?author.?email`, `body.?data.?item.?email`),
			OccurredAt: `body.?created_at`,
			EventID:    `body.?id`,
		},
	},
	{
		Name: atrium.ProviderSegment, Title: "Segment",
		Steps: []string{
			"Add the destination Webhooks in Segment, with the address of the receiver.",
			"Set Shared Secret to the secret of the receiver.",
		},
		headers: []string{"x-signature"},
		verify:  hexSHA1.inHeader("x-signature", ""),
		Mapping: atrium.Mapping{
			Type:       `body.?event.or(body.?type)`,
			Email:      firstText(`body.?traits.?email`, `body.?context.?traits.?email`, `body.?properties.?email`),
			OccurredAt: `body.?timestamp`,
			EventID:    `body.?messageId`,
		},
	},
	{
		Name: atrium.ProviderMeta, Title: "Meta", GeneratesSecret: true, EmptyResponse: true,
		Steps: []string{
			"Copy the app secret from the basic settings of the Meta app to the receiver.",
			"In Webhooks of the app, set the callback URL to the address of the receiver and the verify token to that of the receiver.",
			"Meta calls the address once, then subscribe to fields.",
		},
		headers: []string{"x-hub-signature", "x-hub-signature-256"},
		verify:  hexSHA256.inHeader("x-hub-signature-256", "sha256="),
		Mapping: atrium.Mapping{
			Type:       `body.?object`,
			OccurredAt: `body.?entry[?0].?time`,
		},
	},
	{
		Name: atrium.ProviderStandardWebhooks, Title: "Standard Webhooks", GeneratesSecret: true,
		Steps: []string{
			"Add an endpoint with the address of the receiver to the sender.",
			"Copy its secret, which begins with whsec_, to the receiver.",
		},
		headers: []string{"webhook-signature", "svix-signature"},
		verify:  standardWebhooks,
		Mapping: atrium.Mapping{
			Type:       `body.?type`,
			OccurredAt: `body.?timestamp`,
			EventID:    `headers[?"webhook-id"].or(headers[?"svix-id"])`,
		},
	},
	{
		Name: atrium.ProviderHMAC, Title: "HMAC signature",
		Steps: []string{
			"Find out how the sender signs its requests, and set the verification of the receiver to it.",
			"Set the address in the sender, and exchange the secret.",
		},
		verify: generic,
	},
	{
		Name: atrium.ProviderToken, Title: "Token in a header",
		Steps:       []string{"Let the sender send the secret of the receiver in the header, in addition to what it sends."},
		credentials: true,
		verify:      token,
	},
	{
		Name: atrium.ProviderBasic, Title: "HTTP basic authentication",
		Steps:       []string{"Let the sender send the user name of the receiver, and its secret as the password. Some take both in the address: https://user:password@host/."},
		headers:     []string{"authorization"},
		credentials: true,
		verify:      basic,
	},
}
