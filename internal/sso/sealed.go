package sso

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"

	"github.com/go-json-experiment/json"
)

// A Seal encrypts what a browser keeps during a sign-in, so that it can neither read nor change it. All nodes
// have the same key. It is safe for concurrent use.
type Seal struct {
	aead  cipher.AEAD
	bound string
}

// KeyLen is the length of the key of a Seal in bytes.
const KeyLen = 32

// NewSeal returns a Seal with a key of KeyLen bytes. What it closes opens only for the same provider and client.
func NewSeal(key []byte, issuer, clientID string) (*Seal, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Seal{aead, issuer + "\x00" + clientID}, err
}

// Close returns a value as a text that opens only for the same purpose.
func (s *Seal) Close(purpose string, v any) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(purpose+"\x00"+s.bound))), nil
}

// Open sets v to the value in a text, and reports whether Close returned the text for the purpose.
func (s *Seal) Open(purpose, text string, v any) bool {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(purpose+"\x00"+s.bound))
	return err == nil && json.Unmarshal(plain, v) == nil
}
