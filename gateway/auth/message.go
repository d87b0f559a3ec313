package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// What gateways tell each other is one line:
//
//	1.MAC.BODY
//
// 1 is the version, MAC the base64url of HMAC-SHA256 over "1." and BODY under the
// gateways' common secret (empty without one), BODY a JSON object with exactly
// one of revoke and login.
const (
	messageVersion = "1"
	maxMessage     = 4 << 10
	// maxAhead is how far the clock of another gateway may be ahead of ours.
	maxAhead = 5 * time.Minute
)

var errMessage = errors.New("no message of a gateway")

// Message is what one gateway tells the others.
type Message struct {
	From   string      `json:"from"` // the gateway's name, which is random
	Revoke *Revocation `json:"revoke,omitempty"`
	Login  *Login      `json:"login,omitempty"`
}

// Login says that a user's session has come into service.
type Login struct {
	User  string `json:"user"`
	Stamp Stamp  `json:"stamp"`
	// Answer marks what is said because another gateway's login did not outdo this
	// one. An answer is never answered, whatever the gateways' settings are.
	Answer bool `json:"answer,omitempty"`
}

// Seal encodes a message. An empty secret means none.
func (m *Message) Seal(secret []byte) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s.%s.%s", messageVersion, mac(secret, body), body), nil
}

func mac(secret, body []byte) string {
	if len(secret) == 0 {
		return ""
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(messageVersion + "."))
	h.Write(body)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// OpenMessage reads what Seal wrote with the same secret. It takes nothing else:
// whoever may publish to Redis can say anything here.
func OpenMessage(secret, raw []byte, now time.Time) (*Message, error) {
	version, rest, _ := bytes.Cut(raw, []byte("."))
	given, body, ok := bytes.Cut(rest, []byte("."))
	switch {
	case len(raw) > maxMessage, !ok, string(version) != messageVersion:
		return nil, fmt.Errorf("%w: not of this version", errMessage)
	case !hmac.Equal(given, []byte(mac(secret, body))):
		return nil, fmt.Errorf("%w: not made with auth.control_secret", errMessage)
	}
	m := &Message{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", errMessage, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one object", errMessage)
	}
	return m, m.check(now)
}

func (m *Message) check(now time.Time) error {
	bad := !isName(m.From) || m.From == "" || (m.Revoke == nil) == (m.Login == nil)
	switch {
	case bad:
	case m.Revoke != nil:
		bad = m.Revoke.check(now) != nil
	default:
		bad = m.Login.User == "" || !isName(m.Login.User) || m.Login.Stamp.check(now) != nil
	}
	if bad {
		return fmt.Errorf("%w: values out of range", errMessage)
	}
	return nil
}

// Reconcile compares the list with what Redis keeps: stored values by their
// keys. It takes in what is newer there, returns what is newer here or missing
// there, and which keys are over and can go. until is when the last of all ends.
func (r *Revocations) Reconcile(secret []byte, from string, stored map[string]string) (taken []Revocation, put map[string]string, drop []string, until time.Time) {
	now := r.now()
	there := map[string]Revocation{}
	for key, value := range stored {
		m, err := OpenMessage(secret, []byte(value), now)
		switch {
		case err != nil || m.Revoke == nil || m.Revoke.key() != key:
			// of another version perhaps, or under another secret: not ours to remove
		case m.Revoke.Until <= now.UnixMilli():
			drop = append(drop, key)
		default:
			there[key] = *m.Revoke
		}
	}
	for _, e := range there {
		taken = append(taken, e)
	}
	taken = r.Merge(taken...)
	put = map[string]string{}
	for key, e := range r.all() {
		if until = later(until, time.UnixMilli(e.Until)); there[key] == e {
			continue
		}
		if old, ok := there[key]; ok && !e.newer(&old) {
			continue
		}
		if value, err := (&Message{From: from, Revoke: &e}).Seal(secret); err == nil {
			put[key] = string(value)
		}
	}
	return taken, put, drop, until
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
