package auth

import (
	"context"
	"net/netip"

	"atrium"
	"atrium/internal/limit"
)

// FindPreview returns a preview and the hash of its token. If there is none, or it has expired, the
// error's code is atrium.CodeNotFound.
type FindPreview func(ctx context.Context, id atrium.PreviewID) (p atrium.Preview, secretHash []byte, err error)

// Preview returns the preview of a token that a client has sent. The error's code is
// atrium.CodeUnauthenticated for a token that is malformed, unknown or expired, and
// atrium.CodeRateLimited if the client has sent too many of these or of invalid keys. Such a client
// can neither guess tokens nor load the store: unlike its keys, its tokens are refused without a
// lookup, even valid ones.
func (a *Authenticator) Preview(ctx context.Context, from netip.Addr, token string, find FindPreview) (atrium.Preview, error) {
	from = limit.Network(from)
	b := a.failures.Take(from)
	if !b.OK {
		return atrium.Preview{}, tooMany(b, "This address has sent too many invalid keys or tokens.")
	}
	invalid := atrium.Errorf(atrium.CodeUnauthenticated, "The preview token is not valid, or it has expired.")
	suffix, secret, ok := parseText(previewPrefix, token)
	if !ok {
		return atrium.Preview{}, invalid
	}
	id := atrium.PreviewID("")
	p, hash, err := find(ctx, atrium.PreviewID(id.Prefix()+suffix))
	if err != nil && atrium.CodeOf(err) != atrium.CodeNotFound {
		a.failures.Return(from)
		return atrium.Preview{}, err
	}
	if !same(hashSecret(secret), hash) { // also if there is none
		return atrium.Preview{}, invalid
	}
	a.failures.Return(from)
	return p, nil
}
