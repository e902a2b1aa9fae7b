package rest

import (
	"cmp"
	"sync"
	"time"

	"atrium"
)

const (
	maxCachedBody  = 256 << 10 // larger bodies are not cached
	cachedOverhead = 256       // approximate bytes of a cached response in addition to its texts
)

// A ResponseCache caches responses until the version of their data changes. It is safe for
// concurrent use. A nil cache caches nothing.
//
// Authorize the caller first: the cache distinguishes tenants, not keys.
type ResponseCache struct {
	// Version returns the version of a cache tag: see engine.DB's CacheVersion.
	Version func(tag string) (version [2]uint64, known bool)

	Bytes int64 // approximate maximum memory of the responses; 0 disables the cache

	// The responses are in two generations. A response moves to the current one when it
	// is found in the previous one. mu guards them.
	mu                sync.Mutex
	current, previous map[cacheKey]*cachedResponse
	currentBytes      int64
}

// A cacheKey has the properties of a request that a cached response depends on.
type cacheKey struct {
	tenant      atrium.TenantID
	path, query string
}

type cachedResponse struct {
	version [2]uint64
	body    Encoded
	tag     string         // the entity tag
	maxAge  *time.Duration // of a public response
}

func (a *cachedResponse) response() Response {
	return Response{Body: a.body, ETag: a.tag, MaxAge: a.maxAge}
}

func (a *cachedResponse) bytes(key cacheKey) int64 {
	return int64(len(a.body) + len(a.tag) + len(key.path) + len(key.query) + cachedOverhead)
}

// Get returns the cached response to a request, or the result of load, with status 200. It caches
// the result if load returns cacheable: the response must depend only on the tenant, path and query
// of the request, and on the data of the cache tag.
func (c *ResponseCache) Get(
	r *Request, tenant atrium.TenantID, tag string, load func() (response Response, cacheable bool, err error),
) (Response, error) {
	return c.get(cacheKey{tenant, r.http.URL.EscapedPath(), r.http.URL.RawQuery}, tag, load)
}

// GetByKey is Get for a response that depends only on the tenant, key and data without a cache tag, so
// that clients cannot fill the cache with the same response under many paths and queries.
func (c *ResponseCache) GetByKey(tenant atrium.TenantID, key string, load func() (Response, error)) (Response, error) {
	return c.get(cacheKey{tenant: tenant, path: key}, "", func() (Response, bool, error) {
		response, err := load()
		return response, true, err
	})
}

func (c *ResponseCache) get(key cacheKey, tag string, load func() (response Response, cacheable bool, err error)) (Response, error) {
	var before [2]uint64
	known := false
	if c != nil && c.Bytes > 0 {
		before, known = c.Version(tag)
	}
	if !known {
		response, _, err := load()
		return response, err
	}
	if cached := c.find(key, before); cached != nil {
		return cached.response(), nil
	}
	response, cacheable, err := load()
	if err != nil || !cacheable {
		return response, err
	}
	body, err := Encode(response.Body)
	if err != nil {
		return response, err
	}
	loaded := &cachedResponse{before, body, cmp.Or(response.ETag, hashTag(body)), response.MaxAge}
	if after, known := c.Version(tag); known && after == before && len(body) <= maxCachedBody {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.add(key, loaded)
	}
	sent := loaded.response()
	sent.Rows = response.Rows // of a load only: a cached response reads none
	return sent, nil
}

// find returns the cached response of a version, or nil.
func (c *ResponseCache) find(key cacheKey, version [2]uint64) *cachedResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached := c.current[key]
	if cached == nil {
		if cached = c.previous[key]; cached == nil {
			return nil
		}
		if cached.version == version {
			c.add(key, cached)
		}
	}
	if cached.version != version {
		return nil
	}
	return cached
}

// add puts a response into the current generation. When that takes half of the memory, it becomes the
// previous one, and the former previous one is dropped. c.mu is held.
func (c *ResponseCache) add(key cacheKey, response *cachedResponse) {
	if c.current == nil {
		c.current = map[cacheKey]*cachedResponse{}
	}
	if former := c.current[key]; former != nil {
		c.currentBytes -= former.bytes(key)
	}
	c.current[key] = response
	if c.currentBytes += response.bytes(key); c.currentBytes > c.Bytes/2 {
		c.current, c.previous, c.currentBytes = nil, c.current, 0
	}
}
