package manage

import (
	"context"
	"io"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/rest"
	"atrium/internal/strictjson"
	"atrium/internal/transfer"
)

// exportPerson records that it begins before it sends anything, and that it is complete before the
// response ends. So the audit log has every export of which a client may have received a part.
func (a *API) exportPerson(ctx context.Context, who auth.Principal, r *rest.Request) (rest.Response, error) {
	var request atrium.ErasureRequest
	c, err := r.DecodeChange(who, func(o *strictjson.Object) { decodeErasureRequest(o, &request) })
	if err != nil {
		return rest.Response{}, err
	}
	return rest.Response{Open: a.Exports, Search: true, Stream: func(w io.Writer) error {
		ctx, cancel := r.UntilClosed(ctx) // it may send nothing for long
		defer cancel()
		if err := a.Store.BeginPersonExport(ctx, c, request); err != nil {
			return err
		}
		done, err := transfer.ExportPerson(ctx, a.Store, who.TenantID, request, w)
		if err != nil {
			return err
		}
		return a.Store.CompletePersonExport(ctx, c, done)
	}}, nil
}
