package rest

import (
	"context"
	"errors"
	"net/http"

	"atrium"
	"atrium/internal/auth"
	"atrium/internal/limit"
	"atrium/internal/telemetry"
)

// authorize returns nil if the principal may call the operation.
func authorize(route Route, who auth.Principal) error {
	switch {
	case route.For == AnyTenant && !who.Operator:
		return atrium.Errorf(atrium.CodeForbidden, "The key must be an operator's.")
	case route.For == KeyTenant && who.Operator:
		return atrium.Errorf(atrium.CodeForbidden, "The key must be a tenant's.")
	case who.Scopes.Has(route.Scope) || route.Or != "" && who.Scopes.Has(route.Or):
		return nil
	case who.UserID != "":
		return atrium.Errorf(atrium.CodeForbidden, "Your role does not allow this.")
	case route.Or != "":
		return atrium.Errorf(atrium.CodeForbidden, "The key needs the scope %s or %s.", route.Scope, route.Or)
	}
	return atrium.Errorf(atrium.CodeForbidden, "The key needs the scope %s.", route.Scope)
}

// nameTenant sets the tenant of an operator to the one that the request names. Any other key
// has its own tenant and may name only that.
func (a *API) nameTenant(ctx context.Context, route Route, who *auth.Principal, r *http.Request) error {
	named := r.Header[headerTenant]
	if len(named) == 0 {
		if who.Operator && route.For == OneTenant {
			return tenantFault("is required with an operator's key")
		}
		return nil
	}
	id, ok := atrium.ParseID[atrium.TenantID](named[0])
	switch {
	case len(named) > 1:
		return tenantFault("must not be repeated")
	case !ok:
		return tenantFault("must match ^tenant_[a-z0-9]{26}$")
	case !who.Operator && id != who.TenantID:
		return atrium.NotFound()
	case who.Operator:
		who.TenantID = id
		return a.Tenants(ctx, id)
	}
	return nil
}

func tenantFault(detail string) error {
	return atrium.Invalid(atrium.Fault{In: atrium.InHeader, Where: "Atrium-Tenant", Detail: detail})
}

func (a *API) authenticate(ctx context.Context, w http.ResponseWriter, r *http.Request) (auth.Principal, error) {
	key := ""
	if values := r.Header[headerKey]; len(values) == 1 {
		key = values[0]
	}
	exchange := exchangeOf(w)
	who, err := a.Keys.Authenticate(ctx, exchange.Client, key)
	if err != nil && (atrium.CodeOf(err) == atrium.CodeRateLimited || errors.Is(err, limit.ErrBusy)) {
		exchange.Refused = telemetry.ByAuthFailures
	}
	exchange.TenantID, exchange.KeyID, exchange.UserID = who.TenantID, who.KeyID, who.UserID
	return who, err
}
