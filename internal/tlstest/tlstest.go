// Package tlstest sends TLS 1.3 records that crypto/tls receives, but does not send, to servers and clients of tests.
package tlstest

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
)

// Names of the secrets of application data in a key log.
const (
	ClientSecret = "CLIENT_TRAFFIC_SECRET_0"
	ServerSecret = "SERVER_TRAFFIC_SECRET_0"
)

// A KeyLog is a tls.Config.KeyLogWriter that keeps the secrets of the last connection. It is safe for concurrent use.
type KeyLog struct {
	mu      sync.Mutex
	secrets map[string][]byte
}

func (k *KeyLog) Write(line []byte) (int, error) {
	fields := bytes.Fields(line)
	secret, err := hex.DecodeString(string(fields[len(fields)-1]))
	if err != nil {
		return 0, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.secrets == nil {
		k.secrets = map[string][]byte{}
	}
	k.secrets[string(fields[0])] = secret
	return len(line), nil
}

// Records makes the records of one side of a connection. It is not safe for concurrent use.
type Records struct {
	secret   []byte
	seal     cipher.AEAD
	iv       []byte
	sequence uint64
}

// Records returns the records of the side with a secret, which has sent some after the handshake. The connection must use
// TLS_AES_128_GCM_SHA256, which crypto/tls prefers on processors with instructions for AES.
func (k *KeyLog) Records(side string, sent uint64, state tls.ConnectionState) (*Records, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if state.CipherSuite != tls.TLS_AES_128_GCM_SHA256 || k.secrets[side] == nil {
		return nil, fmt.Errorf("%s with the secrets of %d kinds", tls.CipherSuiteName(state.CipherSuite), len(k.secrets))
	}
	r := &Records{secret: k.secrets[side]}
	err := r.derive()
	r.sequence = sent
	return r, err
}

// derive derives the key from the secret (RFC 8446 section 7.3).
func (r *Records) derive() error {
	key, err := expand(r.secret, "key", 16)
	if err != nil {
		return err
	}
	if r.iv, err = expand(r.secret, "iv", 12); err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	r.seal, err = cipher.NewGCM(block)
	r.sequence = 0
	return err
}

// expand is HKDF-Expand-Label without a context (RFC 8446 section 7.1).
func expand(secret []byte, label string, length int) ([]byte, error) {
	label = "tls13 " + label
	info := append([]byte{0, byte(length), byte(len(label))}, label...)
	return hkdf.Expand(sha256.New, secret, string(append(info, 0)), length)
}

// Data returns a record of application data.
func (r *Records) Data(data []byte) []byte { return r.record(data, 23) }

// KeyUpdate returns a record that requests a key update of the other side, and updates those of this side (RFC 8446
// section 4.6.3).
func (r *Records) KeyUpdate() ([]byte, error) {
	record := r.record([]byte{24, 0, 0, 1, 1}, 22)
	var err error
	if r.secret, err = expand(r.secret, "traffic upd", sha256.Size); err == nil {
		err = r.derive()
	}
	return record, err
}

// record encrypts a record (RFC 8446 section 5.2).
func (r *Records) record(content []byte, kind byte) []byte {
	nonce := bytes.Clone(r.iv)
	counter := binary.BigEndian.AppendUint64(nil, r.sequence)
	for i := range counter {
		nonce[len(nonce)-len(counter)+i] ^= counter[i]
	}
	r.sequence++
	header := binary.BigEndian.AppendUint16([]byte{23, 3, 3}, uint16(len(content)+1+r.seal.Overhead()))
	return r.seal.Seal(header, nonce, append(bytes.Clone(content), kind), header)
}
