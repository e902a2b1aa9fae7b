// Command webhook records the signed webhooks of GitHub as entries.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

const maxBody = 900 << 10 // Atrium accepts 1 MiB with the other fields

var client = http.Client{Timeout: 8 * time.Second} // GitHub waits 10 seconds

func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
		return
	}
	mac := hmac.New(sha256.New, []byte(os.Getenv("WEBHOOK_SECRET")))
	mac.Write(body)
	if signature := "sha256=" + hex.EncodeToString(mac.Sum(nil)); !hmac.Equal([]byte(signature), []byte(r.Header.Get("X-Hub-Signature-256"))) {
		http.Error(w, "wrong signature", http.StatusUnauthorized)
		return
	}
	delivery, kind := r.Header.Get("X-GitHub-Delivery"), r.Header.Get("X-GitHub-Event")
	var event struct {
		Repository struct{ Owner struct{ Login string } }
	}
	if err := json.Unmarshal(body, &event); err != nil || delivery == "" || kind == "" {
		http.Error(w, "not an event", http.StatusBadRequest)
		return
	}
	entry := map[string]any{
		"source": "github", "type": kind, "payload": json.RawMessage(body),
		"idempotencyKey": "github-" + delivery, // the same for each attempt
	}
	if owner := event.Repository.Owner.Login; owner != "" {
		entry["name"] = owner // selects the account with this name
	}
	if err := record(entry); err != nil { // the sender sees the failure: deliver it again
		log.Print(delivery, ": ", err)
		http.Error(w, "not recorded", http.StatusBadGateway)
	}
}

func main() {
	if os.Getenv("WEBHOOK_SECRET") == "" {
		log.Fatal("WEBHOOK_SECRET is not set") // anyone could sign with an empty secret
	}
	http.HandleFunc("POST /github", receive)
	server := http.Server{Addr: os.Args[1], ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// record sends an entry. It returns nil only if Atrium has stored it.
func record(entry map[string]any) error {
	body, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodPost, os.Getenv("ATRIUM_SERVER")+"/v0/account_logs", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("x-api-key", os.Getenv("ATRIUM_KEY"))
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	problem, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusCreated {
		return errors.New(string(problem))
	}
	return nil
}
