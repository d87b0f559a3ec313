// Package knownhosts is the file in which a user's tools remember gateways'
// public keys. It decides nothing about a key and never asks anybody.
//
// A line is an address and a key, separated by a space; an address may have
// several lines, one for each key that it may show. Empty lines and those that
// begin with # are passed over.
//
//	ticks.example:443 3q2-7wAB...
package knownhosts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sealcast/sealcast/session"
)

// ErrFormat reports a line that is not an address and a key.
var ErrFormat = errors.New("not an address and a key")

// maxSize bounds what is read of a file, in bytes: tens of thousands of gateways.
const maxSize = 4 << 20

// File is a file of known gateways. It need not exist.
type File struct{ Path string }

// Lookup returns the keys known for an address (host:port), none if it is
// unknown. A file with a line that cannot be read is refused as a whole, since
// the line may be the one that was meant.
func (f File) Lookup(address string) ([]session.PublicKey, error) {
	text, err := f.read()
	if err != nil {
		return nil, err
	}
	var keys []session.PublicKey
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		host, key, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", f.Path, number, err)
		}
		if host == address {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (f File) read() ([]byte, error) {
	info, err := os.Stat(f.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() > maxSize:
		return nil, fmt.Errorf("%s: larger than %d MiB", f.Path, maxSize>>20)
	}
	return os.ReadFile(f.Path)
}

func parseLine(line []byte) (host string, key session.PublicKey, err error) {
	fields := bytes.Fields(line)
	if len(fields) != 2 {
		return "", key, ErrFormat
	}
	key, err = session.ParsePin(string(fields[1]))
	if err != nil {
		return "", key, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return string(fields[0]), key, nil
}

// Add remembers a key for an address. The file and its directory are made if
// need be, readable and writable for the user alone. The line is appended in
// one write, so that two tools may do so at once.
func (f File) Add(address string, key session.PublicKey) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	text, err := f.read()
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s %v\n", address, key)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	file, err := os.OpenFile(f.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	return errors.Join(err, file.Close())
}
