package auth_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"atrium"
	"atrium/internal/auth"
)

// A previewStore has one preview, and counts its queries.
type previewStore struct {
	preview atrium.Preview
	hash    []byte
	queries int
	err     error // if set, the store is unavailable
}

func (s *previewStore) find(_ context.Context, id atrium.PreviewID) (atrium.Preview, []byte, error) {
	s.queries++
	if s.err != nil {
		return atrium.Preview{}, nil, atrium.Unavailable(s.err)
	}
	if id != s.preview.ID {
		return atrium.Preview{}, nil, atrium.NotFound()
	}
	return s.preview, s.hash, nil
}

func newPreviewStore() (s *previewStore, token string) {
	id, token, hash := auth.NewPreviewToken()
	return &previewStore{preview: atrium.Preview{ID: id, Number: 3}, hash: hash}, token
}

func (s *previewStore) ask(a *auth.Authenticator, from netip.Addr, token string) string {
	p, err := a.Preview(context.Background(), from, token, s.find)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint("shows ", p.Number)
}

func TestATokenShowsItsPreviewAndEveryInvalidTokenGetsTheSameError(t *testing.T) {
	limited(t, func(t *testing.T, _ *keyStore, a *auth.Authenticator) {
		s, token := newPreviewStore()
		_, unknown, _ := auth.NewPreviewToken()
		_, key, _ := auth.NewKey()
		if got := s.ask(a, client, token); got != "shows 3" {
			t.Errorf("the token: %s", got)
		}
		want := s.ask(a, client, "")
		if !strings.HasPrefix(want, string(atrium.CodeUnauthenticated)) {
			t.Errorf("no token: %s", want)
		}
		id, _, _ := auth.NewPreviewToken()
		otherSecret := withSecretOf(strings.Replace(token, "atp_", "atr_", 1), strings.Replace(unknown, "atp_", "atr_", 1))
		for _, invalid := range []string{unknown, key, token + "0", token[1:], swap(token, len(token)-8), string(id), otherSecret} {
			if got := s.ask(a, client, invalid); got != want {
				t.Errorf("%s: %s, want %s", invalid, got, want)
			}
		}
		for _, hash := range [][]byte{nil, {}, make([]byte, sha256.Size)} {
			if s.hash = hash; s.ask(a, client, token) != want {
				t.Errorf("with the hash %x: %s, want %s", hash, s.ask(a, client, token), want)
			}
		}
	})
}

func TestTokensOfAClientAboveTheFailureRateAreNotLookedUp(t *testing.T) {
	limited(t, func(t *testing.T, _ *keyStore, a *auth.Authenticator) {
		s, token := newPreviewStore()
		for range 2 * allowed {
			if got := s.ask(a, client, token); got != "shows 3" {
				t.Fatalf("a valid token counts as a failure: %s", got)
			}
		}
		s.queries = 0
		for range 100 * allowed {
			_, wrong, _ := auth.NewPreviewToken()
			_ = s.ask(a, client, wrong)
		}
		if s.queries != allowed {
			t.Errorf("%d wrong tokens were looked up, want %d", s.queries, allowed)
		}
		if got := s.ask(a, client, token); !strings.HasPrefix(got, string(atrium.CodeRateLimited)) {
			t.Errorf("above the rate: %s", got)
		}
		if got := s.ask(a, other, token); got != "shows 3" {
			t.Errorf("another client: %s", got)
		}
		if c := code(a, "x"); c != atrium.CodeRateLimited {
			t.Errorf("an invalid key of the client is %s", c)
		}
	})
}

func TestUnavailableStorageDoesNotMakeATokenInvalid(t *testing.T) {
	limited(t, func(t *testing.T, _ *keyStore, a *auth.Authenticator) {
		s, token := newPreviewStore()
		s.err = errors.New("gone")
		for range 2 * allowed {
			if got := s.ask(a, client, token); !strings.HasPrefix(got, string(atrium.CodeUnavailable)) {
				t.Fatalf("without storage: %s", got)
			}
		}
		if s.err = nil; s.ask(a, client, token) != "shows 3" {
			t.Error("the token no longer works")
		}
	})
}
