package manage_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"atrium"
	"atrium/api"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/rest/resttest"
	"atrium/internal/strictjson"
)

const brand = `"brandId":"brand_01kjpx722sf2x8m1c3v5b7n9qa"`

var pageBodies = []string{
	`{` + brand + `,"name":"n","title":"","pageContext":"","actions":[],"scripts":[{}],"footerLinks":[1,null],"headerActionId":null,"metadata":null}`,
	`{` + brand + `,"name":"n","metadata":{"a":1e400}}`, `{` + brand + `,"name":""}`, `{"brandId":"brand","name":"n"}`, `{"name":"n"}`,
	`{` + brand + `,"name":"n","actions":{}}`, `{` + brand + `,"name":"n","headerActionId":""}`, `{` + brand + `,"name":"n","title":"\u0000"}`,
	`{` + brand + `,"name":"n","public":true,"maxAgeSeconds":6e1}`, `{` + brand + `,"name":"n","public":null}`, `{` + brand + `,"name":"n","maxAgeSeconds":86401}`,
}

// The brand does not exist. The fault of brandId alone means that the body was accepted.
func FuzzCreatePageBody(f *testing.F) {
	resttest.AddBodies(f, pageBodies...)
	all := routes(f)
	create := slices.IndexFunc(all, func(r rest.Route) bool { return r.Method == http.MethodPost && r.Pattern == "/manage/v0/pages" })
	handle := all[create].Handle
	all[create].Handle = func(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
		response, err := handle(ctx, who, r)
		if e, ok := errors.AsType[*atrium.Error](err); ok && len(e.Faults) == 1 && e.Faults[0].Detail == "names a brand that does not exist" {
			err = atrium.NotFound()
		}
		return response, err
	}
	o := resttest.New(f, api.Manage, "createPage", all, http.StatusNotFound)
	f.Fuzz(func(t *testing.T, body []byte) { o.Check(t, body) })
}

func FuzzUpdatePageBody(f *testing.F) {
	fuzz(f, "updatePage", http.StatusNotFound, pageBodies...)
}

var instant = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`)

// The pattern in the document cannot exclude dates that do not exist.
func FuzzSchedulePageBody(f *testing.F) {
	resttest.AddBodies(f, `{"publishAt":"2030-01-01T00:00:00Z"}`, `{"unpublishAt":"2030-01-01T00:00:00.123456+14:00","publishAt":"2029-01-01T00:00:00Z"}`,
		`{"publishAt":null}`, `{"publishAt":"2030-01-01"}`, `{"publishAt":"2030-01-01T00:00:00,5Z"}`, `{"publishAt":"2030-01-01t00:00:00z"}`)
	o := resttest.New(f, api.Manage, "schedulePage", routes(f), http.StatusNotFound)
	f.Fuzz(func(t *testing.T, body []byte) {
		if parsed, err := strictjson.Parse(body); err == nil {
			for _, name := range parsed.Names() {
				text, ok := parsed.Text(name, strictjson.Optional, nil)
				if _, err := atrium.ParseTime(text); ok && err != nil && instant.MatchString(text) {
					return
				}
			}
		}
		o.Check(t, body)
	})
}

func FuzzCreateAudienceBody(f *testing.F) {
	fuzz(f, "createAudience", http.StatusNotFound, `{"name":"a"}`, `{"name":""}`)
}

func FuzzUpdateAudienceBody(f *testing.F) {
	fuzz(f, "updateAudience", http.StatusNotFound, `{"name":"a"}`, `{"name":null}`)
}

func FuzzCreateVersionBody(f *testing.F) {
	fuzz(f, "createVersion", http.StatusNotFound, `{"content":null}`, `{"content":{"a":[1.0]},"note":""}`, `{"note":"n"}`, `{"content":1,"note":null}`)
}
