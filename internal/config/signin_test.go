package config

import (
	"strings"
	"testing"
)

func TestTheIdentityProviderHasCompleteSafeSettings(t *testing.T) {
	const public, issuer, client = "public-url: https://a.example\n", "oidc-issuer: https://id.example\n", "oidc-client-id: a\noidc-client-secret-file: s\n"
	for text, fault := range map[string]string{
		public + issuer + client: "",
		"public-url: http://127.0.0.1:8080\noidc-issuer: http://localhost:9000/realms/a\n" + client: "",
		public:                                  "",
		issuer + client:                         "public-url must be set with oidc-issuer",
		public + issuer:                         "oidc-client-id must be set with oidc-issuer",
		public + issuer + "oidc-client-id: a\n": "oidc-client-secret-file must be set with oidc-issuer",
		public + client:                         "oidc-issuer must be set with oidc-client-id",
		public + issuer + client + "console: false\n":             "oidc-issuer needs the console",
		public + issuer + client + "oidc-scopes: profile\n":       "oidc-scopes must include openid",
		public + issuer + client + "oidc-groups-claim: ''\n":      "oidc-groups-claim must not be empty",
		public + issuer + client + "oidc-label: ''\n":             "oidc-label must be 1 to 60",
		public + "oidc-issuer: http://id.example\n" + client:      "oidc-issuer must be an https URL",
		public + "oidc-issuer: https://a:b@id.example\n" + client: "oidc-issuer must be an https URL",
		public + "oidc-issuer: https://id.example?a\n" + client:   "oidc-issuer must be an https URL",
		public + "oidc-issuer: id.example\n" + client:             "oidc-issuer must be an https URL",
		"public-url: http://a.example\n":                          "public-url must be https://",
		"public-url: https://a.example/\n":                        "public-url must be https://",
		"public-url: https://a.example?\n":                        "public-url must be https://",
		"public-url: https://a:b@a.example\n":                     "public-url must be https://",
		"public-url: https://\n":                                  "public-url must be https://",
		"public-url: javascript://a.example\n":                    "public-url must be https://",
	} {
		_, _, err := load(t, nil, nil, text)
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v, want %q", text, err, fault)
		}
	}
}
