// Command events receives the events of a webhook of Atrium.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxBody   = 1 << 20
	tolerance = 5 * time.Minute // older requests may be copies that someone sends again
)

// seen has the events that were handled. Replace it by a table with a unique key: it must survive a restart.
var seen sync.Map

// verified reports whether one of the signatures is that of the body, and is new enough.
func verified(key []byte, h http.Header, body []byte) bool {
	seconds, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return false
	}
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+".")
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, signature := range strings.Fields(h.Get("webhook-signature")) { // two while a secret is rotated
		if hmac.Equal([]byte(signature), []byte(want)) {
			return true
		}
	}
	return false
}

func main() {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEBHOOK_SECRET"), "whsec_"))
	if err != nil || len(key) == 0 {
		log.Fatal("WEBHOOK_SECRET must be the secret of the webhook: whsec_…")
	}
	http.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, "body too large", http.StatusRequestEntityTooLarge)
			return
		}
		if !verified(key, r.Header, body) {
			http.Error(w, "wrong signature", http.StatusUnauthorized)
			return
		}
		var event struct {
			ID, Type string
			Data     json.RawMessage
		}
		if err := json.Unmarshal(body, &event); err != nil || event.ID == "" {
			http.Error(w, "not an event", http.StatusBadRequest)
			return
		}
		if _, again := seen.LoadOrStore(event.ID, true); !again { // an event can arrive more than once
			log.Print(event.Type, " ", event.ID, " ", len(event.Data), " bytes")
		}
		w.WriteHeader(http.StatusNoContent) // only now: without a 2xx, Atrium sends the event again
	})
	server := http.Server{Addr: os.Args[1], ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}
