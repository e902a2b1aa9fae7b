// Command external records an entry and lists all pages, with a client that oapi-codegen generates.
//
//	ATRIUM_SERVER=http://127.0.0.1:8080 ATRIUM_KEY=atr_… go run .
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"atrium/examples/oapi-codegen/external/atrium"
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
	r.Header.Set("x-api-key", os.Getenv("ATRIUM_KEY"))
	return nil
}

func run(ctx context.Context, client *atrium.ClientWithResponses) error {
	// With an idempotency key, the request can be repeated: it creates one entry.
	created, err := client.CreateAccountLogWithResponse(ctx, nil, atrium.NewAccountLog{
		Source: "crm", Type: new("deal.won"), Domain: new("acme.example"), IdempotencyKey: new("deal-4711-won"),
		Payload: map[string]any{"dealId": 4711, "amount": 1850.5, "products": []string{"basic", "support"}},
	})
	if err != nil {
		return err
	}
	if created.JSON201 == nil {
		return problem(created.Body)
	}
	if ignored := created.HTTPResponse.Header.Get("Atrium-Ignored"); ignored != "" {
		log.Print("ignored: ", ignored) // names of fields that the server does not know
	}
	fmt.Println("recorded", created.JSON201.AccountLogId, "of", created.JSON201.AccountId)

	next := &atrium.ListPagesParams{Limit: new(2)}
	for {
		list, err := client.ListPagesWithResponse(ctx, next)
		if err != nil {
			return err
		}
		if list.JSON200 == nil {
			return problem(list.Body)
		}
		for _, page := range list.JSON200.Items {
			fmt.Println(page.Status, page.Title, page.UpdatedAt.Format(time.DateOnly))
		}
		if !list.JSON200.HasMore {
			return nil
		}
		next.Cursor = list.JSON200.NextCursor
	}
}

// problem returns the error that a response describes.
func problem(body []byte) error {
	var p atrium.Problem
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	return fmt.Errorf("%s: %s (request %s)", p.Code, p.Detail, p.RequestId)
}
