// Command manage records past entries, finds their account and renames it, with a client that
// oapi-codegen generates.
//
//	ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_MANAGE_KEY=atr_… go run .
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"atrium/examples/oapi-codegen/manage/atrium"
)

//go:generate go tool oapi-codegen -generate types,client -package atrium -o atrium/client.go openapi.yaml

func main() {
	client, err := atrium.NewClientWithResponses(os.Getenv("ATRIUM_SERVER"), atrium.WithRequestEditorFn(addKey))
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

func addKey(_ context.Context, r *http.Request) error {
	r.Header.Set("x-api-key", os.Getenv("ATRIUM_MANAGE_KEY"))
	return nil
}

func run(ctx context.Context, client *atrium.ClientWithResponses) error {
	recorded, err := client.CreateAccountLogsWithResponse(ctx, nil, atrium.NewAccountLogs{Entries: []atrium.BatchAccountLog{{
		Source: "crm", Domain: new("past.example"), IdempotencyKey: new("past-1"), Payload: map[string]any{"dealId": 1},
		OccurredAt: new(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)),
	}, {
		Source: "crm", Payload: map[string]any{"dealId": 2},
		AccountId: new("account_00000000000000000000000000"), // unknown: it is refused, and the other one recorded
	}}})
	if err != nil {
		return err
	}
	if recorded.JSON200 == nil {
		return problem(recorded.Body)
	}
	for _, outcome := range recorded.JSON200.Outcomes {
		if refused, err := outcome.AsRefusedAccountLog(); err == nil && refused.Status >= 400 {
			fmt.Println("refused:", refused.Code)
		}
	}

	list, err := client.ListAccountsWithResponse(ctx, &atrium.ListAccountsParams{Domain: new("past.example")})
	if err != nil {
		return err
	}
	if list.JSON200 == nil {
		return problem(list.Body)
	}
	for _, found := range list.JSON200.Items {
		account, err := client.GetAccountWithResponse(ctx, found.AccountId, nil)
		if err != nil || account.JSON200 == nil {
			return fmt.Errorf("read %s: %s: %w", found.AccountId, account.Status(), err)
		}
		// The entity tag protects a change that this program has not seen.
		renamed, err := client.UpdateAccountWithResponse(ctx, found.AccountId,
			&atrium.UpdateAccountParams{IfMatch: account.Headers200.ETag}, atrium.AccountUpdate{Name: new("Past Example")})
		if err != nil {
			return err
		}
		if renamed.JSON200 == nil {
			return problem(renamed.Body)
		}
		fmt.Println("renamed", renamed.JSON200.Domain, "to", *renamed.JSON200.Name)
	}
	return nil
}

// problem returns the error that a response describes.
func problem(body []byte) error {
	var p atrium.Problem
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	return fmt.Errorf("%s: %s (request %s)", p.Code, p.Detail, p.RequestId)
}
