package console

import (
	"cmp"
	"net/url"
	"strconv"
	"time"
)

// A list is a page of a list of the API.
type list[T any] struct {
	Items      []T    `json:"items"`
	HasMore    bool   `json:"hasMore"`
	NextCursor string `json:"nextCursor"`

	Next  string `json:"-"` // the address of the next page; "" at the end
	First string `json:"-"` // the address of the first page; "" on it
}

const (
	pageSize = 50 // rows of a list
	maxCalls = 5  // for one page of a list that filters make short
)

// readList reads a page of a list with the parameters of the URL that names has. Filters can make pages
// of the API short: it reads some until there are rows.
func readList[T any](r *request, path string, names ...string) (list[T], error) {
	query, shown := r.listParameters(names...)
	return readPages[T](r, path, query, shown)
}

// listParameters returns the parameters of the URL that names has: as the API takes them, with the limit of a
// page, and as addresses have them.
func (r *request) listParameters(names ...string) (query, shown url.Values) {
	query, shown = url.Values{}, url.Values{}
	for _, name := range names {
		if value := r.query(name); value != "" {
			query.Set(name, r.filter(name))
			shown.Set(name, value)
		}
	}
	query.Set("limit", strconv.Itoa(pageSize))
	return query, shown
}

// readPages is readList with the parameters of the API, and those that the addresses of other pages have.
func readPages[T any](r *request, path string, query, shown url.Values) (all list[T], err error) {
	cursor := r.query("cursor")
	if cursor != "" {
		query.Set("cursor", cursor)
		all.First = address(r.http.URL.Path, shown)
	}
	for range maxCalls {
		var some list[T]
		if _, err := r.get(&some, path, query); err != nil {
			return all, err
		}
		all.Items = append(all.Items, some.Items...)
		all.HasMore, all.NextCursor = some.HasMore, some.NextCursor
		if !some.HasMore || len(all.Items) > 0 {
			break
		}
		query.Set("cursor", some.NextCursor)
	}
	if all.HasMore {
		shown.Set("cursor", all.NextCursor)
		all.Next = address(r.http.URL.Path, shown)
		shown.Del("cursor")
	}
	return all, nil
}

// filter returns a parameter of a list as the API takes it.
func (r *request) filter(name string) string {
	if value := r.query(name); name == "since" || name == "until" {
		return instant(value)
	}
	return r.query(name)
}

// instant returns the instant of a field as the API takes it. Fields of forms have times without seconds and zone.
func instant(text string) string {
	if at, err := time.Parse("2006-01-02T15:04", text); err == nil {
		return at.Format(time.RFC3339)
	}
	return text
}

// address returns a path with parameters.
func address(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// text returns the text that s points to, "" for nil.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// named returns a name, or the domain of an account without one.
func named(name *string, domain string) string { return cmp.Or(text(name), domain) }
