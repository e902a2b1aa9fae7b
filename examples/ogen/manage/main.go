// Command manage records past entries, finds their account and renames it, with a client that ogen
// generates.
//
//	ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_MANAGE_KEY=atr_… go run .
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"atrium/examples/ogen/manage/atrium"
)

//go:generate go tool ogen --config ogen.yml --target atrium --package atrium --clean openapi.yaml

func main() {
	client, err := atrium.NewClient(os.Getenv("ATRIUM_SERVER"), key(os.Getenv("ATRIUM_MANAGE_KEY")))
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), client); err != nil {
		log.Fatal(err)
	}
}

// A key authenticates requests.
type key string

func (k key) ApiKey(context.Context, atrium.OperationName) (atrium.ApiKey, error) {
	return atrium.ApiKey{APIKey: string(k)}, nil
}

func run(ctx context.Context, client *atrium.Client) error {
	recorded, err := client.CreateAccountLogs(ctx, &atrium.NewAccountLogs{Entries: []atrium.BatchAccountLog{{
		Source: "crm", Domain: atrium.NewOptString("past.example"), IdempotencyKey: atrium.NewOptString("past-1"),
		Payload:    atrium.BatchAccountLogPayload{"dealId": []byte("1")},
		OccurredAt: atrium.NewOptDateTime(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)),
	}, {
		Source: "crm", Payload: atrium.BatchAccountLogPayload{"dealId": []byte("2")},
		AccountId: atrium.NewOptString("account_00000000000000000000000000"), // unknown: it is refused, and the other one recorded
	}}}, atrium.CreateAccountLogsParams{})
	if err != nil {
		return err
	}
	outcomes, ok := recorded.(*atrium.AccountLogOutcomesHeaders)
	if !ok {
		return problem(recorded)
	}
	for _, outcome := range outcomes.Response.Outcomes {
		if refused, ok := outcome.GetRefusedAccountLog(); ok {
			fmt.Println("refused:", refused.Code)
		}
	}

	listed, err := client.ListAccounts(ctx, atrium.ListAccountsParams{Domain: atrium.NewOptString("past.example")})
	if err != nil {
		return err
	}
	list, ok := listed.(*atrium.AccountListHeaders)
	if !ok {
		return problem(listed)
	}
	for _, found := range list.Response.Items {
		read, err := client.GetAccount(ctx, atrium.GetAccountParams{AccountID: string(found.AccountId)})
		if err != nil {
			return err
		}
		account, ok := read.(*atrium.GetAccountOKHeaders)
		if !ok {
			return problem(read)
		}
		// The entity tag protects a change that this program has not seen.
		changed, err := client.UpdateAccount(ctx, &atrium.AccountUpdate{Name: atrium.NewOptNilString("Past Example")},
			atrium.UpdateAccountParams{AccountID: string(found.AccountId), IfMatch: account.ETag})
		if err != nil {
			return err
		}
		renamed, ok := changed.(*atrium.GetAccountOKHeaders)
		if !ok {
			return problem(changed)
		}
		fmt.Println("renamed", renamed.Response.Domain, "to", renamed.Response.Name.Value)
	}
	return nil
}

// problem returns the error that a response describes.
func problem(response any) error {
	if r, ok := response.(interface{ GetResponse() atrium.Problem }); ok {
		p := r.GetResponse()
		return fmt.Errorf("%s: %s (request %s)", p.Code, p.Detail, p.RequestId)
	}
	return fmt.Errorf("unexpected response %T", response)
}
