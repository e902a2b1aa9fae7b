package manage_test

import (
	"net/http"
	"testing"
)

func FuzzCreatePreviewBody(f *testing.F) {
	const audience = `"audienceId":"audience_01kjq0fm3kf2sb7d9h1j4m6p8r"`
	fuzz(f, "createPreview", http.StatusNotFound, `{`+audience+`,"versionNumber":1}`, `{`+audience+`,"versionNumber":0}`,
		`{`+audience+`,"versionNumber":9007199254740991,"expiresInSeconds":604800}`, `{`+audience+`,"versionNumber":1,"expiresInSeconds":604801}`,
		`{"audienceId":"audience_1","versionNumber":1}`, `{`+audience+`}`, `{"versionNumber":null}`)
}
