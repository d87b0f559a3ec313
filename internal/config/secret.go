package config

import (
	"fmt"
	"io"
)

// masked is what is shown in place of a secret.
const masked = "(hidden)"

// Secret is a setting that no print, log line or encoding may show.
type Secret struct{ value string }

// Reveal returns the secret, for the one place that needs it.
func (s Secret) Reveal() string { return s.value }

// String returns a mask, or nothing for an empty secret.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return masked
}

// Format writes the mask whatever the verb, so that %x and %#v leak nothing.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText returns the mask, also for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
