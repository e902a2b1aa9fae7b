// Command pocketbase is PocketBase with collections like those of the service, for
// comparison. It is a separate module because it has many dependencies.
//
// It reads records from standard input, in the format of the service's import, writes a
// superuser token to the file token in its directory, and serves. Request logging is off.
// All other settings are PocketBase's defaults. The most important one is that it commits
// with synchronous=NORMAL, so that a power failure can lose acknowledged writes.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pocketbase/dbx"
	"github.com/pocketbase/pocketbase"
	"github.com/pocketbase/pocketbase/apis"
	"github.com/pocketbase/pocketbase/core"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8090", "listen address")
	dir := flag.String("dir", "pb_data", "data directory, which must not exist")
	flag.Parse()
	if err := run(*addr, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "pocketbase:", err)
		os.Exit(1)
	}
}

func run(addr, dir string) error {
	app := pocketbase.NewWithConfig(pocketbase.Config{DefaultDataDir: dir, HideStartBanner: true})
	if err := app.Bootstrap(); err != nil {
		return err
	}
	if err := app.RunAllMigrations(); err != nil {
		return err
	}
	app.Settings().Logs.MaxDays = 0
	if err := app.Save(app.Settings()); err != nil {
		return err
	}
	if err := makeCollections(app); err != nil {
		return err
	}
	if err := app.RunInTransaction(fill); err != nil {
		return err
	}
	token, err := makeToken(app)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600); err != nil {
		return err
	}
	return apis.Serve(app, apis.ServeConfig{HttpAddr: addr})
}

// makeToken returns a superuser token, PocketBase's counterpart of an API key. API rules
// do not apply to superusers, which saves PocketBase their queries.
func makeToken(app core.App) (string, error) {
	superusers, err := app.FindCollectionByNameOrId(core.CollectionNameSuperusers)
	if err != nil {
		return "", err
	}
	user := core.NewRecord(superusers)
	user.SetEmail("bench@example.com")
	user.SetRandomPassword()
	if err := app.Save(user); err != nil {
		return "", err
	}
	return user.NewStaticAuthToken(24 * time.Hour)
}

func makeCollections(app core.App) error {
	text := func(names ...string) (fields []core.Field) {
		for _, n := range names {
			fields = append(fields, &core.TextField{Name: n})
		}
		return fields
	}
	values := func(names ...string) (fields []core.Field) {
		for _, n := range names {
			fields = append(fields, &core.JSONField{Name: n})
		}
		return fields
	}
	made := func() []core.Field {
		return []core.Field{&core.AutodateField{Name: "created", OnCreate: true}, &core.AutodateField{Name: "updated", OnCreate: true, OnUpdate: true}}
	}
	define := func(name string, indexes func(*core.Collection), fields ...[]core.Field) (id string, err error) {
		c := core.NewBaseCollection(name)
		for _, f := range fields {
			c.Fields.Add(f...)
		}
		c.Fields.Add(made()...)
		indexes(c)
		return c.Id, app.Save(c)
	}

	prospects, err := define("prospects", func(*core.Collection) {}, text("name", "email", "domain", "slug", "phoneNumber", "linkedinProfileUrl"))
	if err != nil {
		return err
	}
	accounts, err := define("accounts", func(c *core.Collection) { c.AddIndex("accounts_by_domain", true, "domain", "") },
		text("domain", "name"), []core.Field{&core.RelationField{Name: "prospects", CollectionId: prospects, MaxSelect: 1000}})
	if err != nil {
		return err
	}
	_, entries := define("entries", func(c *core.Collection) {
		c.AddIndex("entries_by_key", true, "idempotencyKey", "")
		c.AddIndex("entries_by_account", false, "account, created, id", "")
	}, []core.Field{&core.RelationField{Name: "account", CollectionId: accounts, MaxSelect: 1, Required: true}},
		text("source", "type", "domain", "idempotencyKey"), values("payload"))
	_, pages := define("pages", func(c *core.Collection) { c.AddIndex("pages_by_time", false, "created, id", "") },
		text("brandId", "name", "pageContext", "title", "status"), values("actions", "scripts", "footerLinks", "metadata"))
	_, versions := define("versions", func(c *core.Collection) { c.AddIndex("versions_by_number", true, "audience, number", "") },
		text("audience"), []core.Field{&core.NumberField{Name: "number", OnlyInt: true}, &core.BoolField{Name: "archived"}}, values("content"))
	return errors.Join(entries, pages, versions)
}

// A record is one line of an import, of any kind that is stored here.
type record struct {
	Kind                                             string
	AccountID, ProspectID, PageID, AudienceID, ID    string
	Domain, Name, Email, Slug, PhoneNumber           string
	LinkedinProfileURL                               string
	AccountIDs                                       []string
	BrandID, PageContext, Title, Status, CreatedAt   string
	Actions, Scripts, FooterLinks, Metadata, Content json.RawMessage
}

// id returns the last 15 characters of an identifier, the length that PocketBase allows.
func id(full string) string { return full[len(full)-15:] }

// fill stores the records of standard input as a save would, without hooks.
func fill(app core.App) error {
	now := time.Now().UTC().Format("2006-01-02 15:04:05.000Z")
	prospects := map[string][]string{} // by account
	number := 0
	lines := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var r record
		if err := lines.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		table, row := "", dbx.Params{"created": now, "updated": now}
		set := func(more dbx.Params) {
			for k, v := range more {
				row[k] = v
			}
		}
		switch r.Kind {
		case "account":
			table = "accounts"
			set(dbx.Params{"id": id(r.AccountID), "domain": r.Domain, "name": r.Name, "prospects": "[]"})
		case "prospect":
			table = "prospects"
			set(dbx.Params{"id": id(r.ProspectID), "name": r.Name, "email": r.Email, "domain": r.Domain, "slug": r.Slug, "phoneNumber": r.PhoneNumber, "linkedinProfileUrl": r.LinkedinProfileURL})
			for _, a := range r.AccountIDs {
				prospects[id(a)] = append(prospects[id(a)], id(r.ProspectID))
			}
		case "page":
			created, err := time.Parse(time.RFC3339, r.CreatedAt)
			if err != nil {
				return err
			}
			table = "pages"
			set(dbx.Params{"id": id(r.PageID), "brandId": r.BrandID, "name": r.Name, "pageContext": r.PageContext, "title": r.Title, "status": r.Status,
				"actions": string(r.Actions), "scripts": string(r.Scripts), "footerLinks": string(r.FooterLinks), "metadata": string(r.Metadata),
				"created": created.Format("2006-01-02 15:04:05.000Z")})
		case "audienceVersion":
			number++
			table = "versions"
			set(dbx.Params{"id": id(r.ID), "audience": id(r.AudienceID), "number": number, "content": string(r.Content)})
		default:
			continue
		}
		if _, err := app.DB().Insert(table, row).Execute(); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	for account, ids := range prospects {
		list, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		if _, err := app.DB().Update("accounts", dbx.Params{"prospects": string(list)}, dbx.HashExp{"id": account}).Execute(); err != nil {
			return err
		}
	}
	return nil
}
