// Command sender sends the entries in a directory, one JSON file each, in the order of their names.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const deadline = 24 * time.Hour // how long the service may be down

var client = &http.Client{Timeout: 30 * time.Second}

func main() {
	messages, err := filepath.Glob(filepath.Join(os.Args[1], "*.json")) // sorted
	if err != nil {
		log.Fatal(err)
	}
	for _, message := range messages {
		if err := deliver(message); err != nil {
			log.Fatal(err)
		}
	}
}

// deliver sends one message until its outcome is known.
func deliver(message string) error {
	entry, err := os.ReadFile(message)
	if err != nil {
		return err
	}
	var named struct{ IdempotencyKey string }
	if err := json.Unmarshal(entry, &named); err != nil || named.IdempotencyKey == "" {
		log.Fatalf("%s: without a key, a retry could store the entry twice", message)
	}
	wait := time.Second
	for began := time.Now(); ; wait = min(2*wait, time.Minute) {
		status, after, body := send(entry)
		switch {
		case status == http.StatusCreated:
			return os.Remove(message)
		case status == 401 || status == 403 || status == 405: // every message would fail
			log.Fatalf("%s: %d: %s", message, status, body)
		case status >= 400 && status < 500 && status != 429: // somebody must fix the message
			log.Printf("%s: %d: %s", message, status, body)
			return os.Rename(message, strings.TrimSuffix(message, ".json")+".rejected")
		case time.Since(began) > deadline:
			log.Fatalf("%s: no success in a day: %d", message, status)
		}
		pause := max(wait, after)
		time.Sleep(pause + rand.N(pause/2))
	}
}

// send returns the status, 0 for no response, the time of Retry-After, and the body.
func send(entry []byte) (status int, after time.Duration, body []byte) {
	request, err := http.NewRequest(http.MethodPost, os.Getenv("ATRIUM_SERVER")+"/v0/account_logs", bytes.NewReader(entry))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("x-api-key", os.Getenv("ATRIUM_KEY"))
	response, err := client.Do(request)
	if err != nil { // refused, broken or too slow: the entry may or may not be stored
		return 0, time.Second, nil
	}
	defer response.Body.Close()
	if ignored := response.Header.Get("Atrium-Ignored"); ignored != "" {
		log.Print("fields that the server does not know: ", ignored)
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil {
		seconds = 1
	}
	body, err = io.ReadAll(response.Body)
	if err != nil && response.StatusCode != http.StatusCreated {
		return 0, time.Second, nil
	}
	return response.StatusCode, time.Duration(seconds) * time.Second, body
}
