package console

import (
	"encoding/base64"
	"io"
)

// maxKept is the maximum size of a CSV file that the page of its columns contains, so that it is chosen only once. Browsers
// do not fill in the file of a form again.
const maxKept = 256 << 10

// keptShare is how many bytes of memory each byte of a kept file takes: itself, in base64, and in the page.
const keptShare = 4

// A keeper is a file that is kept while it is read, if it is small and the tenant may use the memory.
type keeper struct {
	from    io.Reader
	hold    func(bytes int64) error
	release func()

	content []byte
	large   bool // it is not kept
	ended   bool
}

// keep replaces the file of a form with a keeper of it. Call release after the page was sent.
func (r *request) keep(form *uploadForm) *keeper {
	k := &keeper{from: form.file}
	k.hold, k.release = r.console.Limits.HoldMemory(r.w, r.user.TenantID)
	form.file = k
	return k
}

func (k *keeper) Read(b []byte) (int, error) {
	n, err := k.from.Read(b)
	if size := len(k.content) + n; !k.large && (size > maxKept || k.hold(keptShare*int64(size)) != nil) {
		k.drop()
	}
	if !k.large {
		k.content = append(k.content, b[:n]...)
	}
	k.ended = err == io.EOF
	return n, err
}

func (k *keeper) drop() {
	k.content, k.large = nil, true
	k.release()
}

// encoded reads the rest of the file, and returns it in base64; "" if it is not kept.
func (k *keeper) encoded() string {
	for !k.large && !k.ended {
		if _, err := io.CopyN(io.Discard, k, maxKept); err != nil {
			break
		}
	}
	if !k.ended {
		k.drop()
	}
	return base64.StdEncoding.EncodeToString(k.content)
}

// decoded returns the file that encoded returned. Of anything longer, it returns a part.
func decoded(content io.Reader) io.Reader {
	return base64.NewDecoder(base64.StdEncoding, io.LimitReader(content, int64(base64.StdEncoding.EncodedLen(maxKept))))
}
