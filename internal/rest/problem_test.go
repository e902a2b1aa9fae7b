package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
)

// oneKey returns the same key for every identifier.
type oneKey struct {
	auth.Keys
	key  atrium.APIKey
	hash []byte
}

func (k oneKey) Key(context.Context, atrium.KeyID) (key atrium.APIKey, current, previous []byte, err error) {
	return k.key, k.hash, nil, nil
}

// ask sends a request to a server with one route. It returns the response and the log.
func ask(handle rest.Handler) (w *httptest.ResponseRecorder, log string) {
	return askFor(context.Background(), handle)
}

// askFor is ask for a client that is gone when ctx has ended.
func askFor(ctx context.Context, handle rest.Handler) (w *httptest.ResponseRecorder, log string) {
	id, text, hash := auth.NewKey()
	key := atrium.APIKey{ID: id, TenantID: atrium.NewID[atrium.TenantID](), Scopes: atrium.ExternalScopes()}
	var lines bytes.Buffer
	service := &rest.API{Keys: auth.New(oneKey{key: key, hash: hash}, time.Now, nil, nil), Log: slog.New(slog.NewTextHandler(&lines, nil))}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.Header.Set("X-Api-Key", text)
	w = httptest.NewRecorder()
	service.Handler([]rest.Route{{Method: http.MethodGet, Pattern: "/{$}", Scope: atrium.ScopePagesRead, Handle: handle}}, nil).ServeHTTP(w, r)
	return w, lines.String()
}

func TestAPathThatDoesNotExistIsNotReportedAsAResource(t *testing.T) {
	service := &rest.API{Log: slog.New(slog.DiscardHandler)}
	handler := service.Handler(nil, nil)
	for _, target := range []string{"/v1/pages", "/v0/pages/", "//v0/pages", "/errors"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://atrium.test"+target, http.NoBody))
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"detail":"This path does not exist. `) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

type problem struct {
	Code   string
	Status int
	Errors []map[string]string
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p problem) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return p
}

func TestProblemHasAtMost50FaultsWithLocations(t *testing.T) {
	w, _ := ask(func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
		var faults []atrium.Fault
		for i := range 60 {
			in := []atrium.FaultPlace{atrium.InBody, atrium.InQuery, atrium.InHeader}[i%3]
			faults = append(faults, atrium.Fault{In: in, Where: strconv.Itoa(i), Detail: "detail"})
		}
		faults[0].Where = "" // the whole body
		return rest.Response{}, atrium.Invalid(faults...)
	})
	p := problemOf(t, w)
	if w.Code != 400 || len(p.Errors) != 50 {
		t.Fatalf("%d with %d faults", w.Code, len(p.Errors))
	}
	for i, f := range p.Errors {
		place := []string{"pointer", "parameter", "header"}[i%3]
		where, ok := f[place]
		if want := strings.TrimPrefix(strconv.Itoa(i), "0"); !ok || where != want || f["detail"] != "detail" || len(f) != 2 {
			t.Errorf("fault %d is %v", i, f)
		}
	}
}

func TestBugIsLoggedAndNotExposed(t *testing.T) {
	for name, handle := range map[string]rest.Handler{
		"an error": func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			return rest.Response{}, errors.New("sesame")
		},
		"a panic": func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			panic("sesame")
		},
		"a body that cannot be encoded": func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			return rest.Response{Body: func() { fmt.Println("sesame") }}, nil
		},
		"a known code with a cause": func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			return rest.Response{}, atrium.Errorf(atrium.CodeInternal, "Public.").Because(errors.New("sesame"))
		},
		"unavailable storage": func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			return rest.Response{}, atrium.Unavailable(errors.New("sesame"))
		},
	} {
		w, log := ask(handle)
		p := problemOf(t, w)
		if p.Code != "internal" && p.Code != "unavailable" || strings.Contains(w.Body.String(), "sesame") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if (w.Header().Get("Retry-After") != "") != (w.Code == 503) {
			t.Errorf("%s: %d with Retry-After %q", name, w.Code, w.Header().Get("Retry-After"))
		}
		if !strings.Contains(log, w.Header().Get("X-Request-Id")) || name != "a body that cannot be encoded" && !strings.Contains(log, "sesame") {
			t.Errorf("%s: the log lacks the request ID or the cause: %s", name, log)
		}
	}
}

func TestEveryCodeHasOneStatusAndAPage(t *testing.T) {
	pages := rest.ErrorPages()
	seen := map[atrium.Code]bool{}
	for _, info := range rest.Codes {
		if seen[info.Code] || info.Status < 400 || info.Title == "" || info.Meaning == "" || info.Remedy == "" {
			t.Errorf("%+v is a duplicate or incomplete", info)
		}
		seen[info.Code] = true
		w, _ := ask(func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			return rest.Response{}, atrium.Errorf(info.Code, "Detail.")
		})
		if p := problemOf(t, w); w.Code != info.Status || p.Code != string(info.Code) {
			t.Errorf("%s: the response is %d %s", info.Code, w.Code, p.Code)
		}
		page := httptest.NewRecorder()
		pages["/errors/"+string(info.Code)].ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", nil))
		if !strings.Contains(html.UnescapeString(page.Body.String()), info.Meaning) {
			t.Errorf("the page of %s lacks its meaning: %s", info.Code, page.Body)
		}
	}
	if w, _ := ask(func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
		return rest.Response{}, atrium.Errorf("unknown", "Detail.")
	}); w.Code != 500 {
		t.Errorf("unknown code: the status is %d", w.Code)
	}
}

func TestARequestWhoseClientHasGoneIsNotLogged(t *testing.T) {
	for _, err := range []error{atrium.Unavailable(context.Canceled), fmt.Errorf("read: %w", context.Canceled)} {
		for _, gone := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			_, log := askFor(ctx, func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
				if gone {
					cancel()
				}
				return rest.Response{}, err
			})
			cancel()
			if strings.Contains(log, "request failed") == gone {
				t.Errorf("%v, the client has gone: %v: log %q", err, gone, log)
			}
		}
	}
}

func TestOnlyFailuresWithACauseAreLogged(t *testing.T) {
	for want, err := range map[string]error{
		"":                 &atrium.Error{Code: atrium.CodeUnavailable, Detail: "There is no room."},
		"the disk is full": atrium.Unavailable(errors.New("the disk is full")),
		"no rows":          errors.New("no rows"),
		"a bug":            atrium.Errorf(atrium.CodeInternal, "a bug"),
	} {
		w, log := ask(func(context.Context, auth.Principal, *rest.Request) (rest.Response, error) {
			return rest.Response{}, err
		})
		if w.Code < http.StatusInternalServerError || strings.Contains(log, "request failed") != (want != "") || !strings.Contains(log, want) {
			t.Errorf("%v: %d, log %q", err, w.Code, log)
		}
	}
}
