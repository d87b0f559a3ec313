package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"os"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway/auth"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/internal/config"
	"github.com/sealcast/sealcast/session"
	"github.com/sealcast/sealcast/wire/codec"
)

// inForce is the settings that hold, with the keys that they name. It is
// replaced as a whole and never changed, so goroutines may share it.
type inForce struct {
	cfg        *config.Config
	key        *session.StaticKey
	tickets    *session.TicketKeys // nil: no resumption
	ticketFile []byte              // SHA-256 of the keys in the file; nil without a file
	dictionary *codec.Dictionary   // nil: none
	redisTLS   *tls.Config         // nil: no TLS to Redis
	verifier   *auth.Verifier      // nil: no tokens
}

// newInForce reads the key files that cfg names, and tells all faults at once.
// before is what held so far, nil at the start: keys that did not change are
// taken from there, and so are keys that no file holds.
func newInForce(cfg *config.Config, before *inForce) (*inForce, error) {
	if before == nil {
		before = &inForce{cfg: cfg}
	}
	next := &inForce{cfg: cfg}
	err := errors.Join(next.loadKey(before), next.loadTicketKeys(before), next.loadDictionary(before), next.loadRedisTLS(), next.loadTokenKeys(before))
	if err == nil {
		return next, nil
	}
	if next.key != nil && next.key != before.key {
		next.key.Clear()
	}
	return nil, err
}

// loadKey reads the static key, or makes one that lives as long as the process.
func (f *inForce) loadKey(before *inForce) (err error) {
	path := f.cfg.KeyFile
	switch {
	case path != "":
		f.key, err = readKey("key_file", path)
	case before.cfg.KeyFile == "":
		f.key = before.key
	}
	if f.key == nil && err == nil {
		f.key, err = session.GenerateStaticKey(rand.Reader)
	}
	if err == nil && before.key != nil && f.key != before.key && f.key.Public() == before.key.Public() {
		f.key.Clear() // one copy is enough
		f.key = before.key
	}
	return err
}

// loadTicketKeys reads the ticket keys, or makes one that lives at most two
// lifetimes of a ticket.
func (f *inForce) loadTicketKeys(before *inForce) (err error) {
	settings := f.cfg.Resumption
	switch {
	case !settings.Enabled:
		return nil
	case settings.TicketKeyFile != "":
		return f.readTicketKeys(settings.TicketKeyFile)
	case before.ticketFile == nil && before.tickets != nil:
		f.tickets = before.tickets
		return nil
	}
	key := newTicketKey()
	defer clear(key)
	f.tickets, err = session.NewTicketKeys(key)
	return err
}

func (f *inForce) readTicketKeys(path string) error {
	keys, err := readTicketKeys("resumption.ticket_key_file", path)
	if err != nil {
		return err
	}
	sum := sha256.New()
	for _, key := range keys {
		sum.Write(key)
		defer clear(key)
	}
	f.ticketFile = sum.Sum(nil)
	f.tickets, err = session.NewTicketKeys(keys...)
	return err
}

// changes names what is different in next, in words for the log.
func (f *inForce) changes(next *inForce) []string {
	keys := f.cfg.Changes(*next.cfg)
	if next.cfg.KeyFile == f.cfg.KeyFile && next.key.Public() != f.key.Public() {
		keys = append(keys, "content of key_file")
	}
	sameName := next.cfg.Resumption.TicketKeyFile == f.cfg.Resumption.TicketKeyFile
	if sameName && f.ticketFile != nil && next.ticketFile != nil && !bytes.Equal(next.ticketFile, f.ticketFile) {
		keys = append(keys, "content of resumption.ticket_key_file")
	}
	sameName = next.cfg.Compress.Dictionary == f.cfg.Compress.Dictionary
	if sameName && next.dictionary != f.dictionary {
		keys = append(keys, "content of compress.dictionary")
	}
	return keys
}

// loadDictionary reads the dictionary. The one from before stays if it is the
// same, so that sessions with it and new ones share their batches.
func (f *inForce) loadDictionary(before *inForce) error {
	path := f.cfg.Compress.Dictionary
	if path == "" {
		return nil
	}
	d, err := readDictionary("compress.dictionary", path)
	if err == nil && before.dictionary != nil && bytes.Equal(d.Bytes(), before.dictionary.Bytes()) {
		d = before.dictionary
	}
	f.dictionary = d
	return err
}

// readDictionary loads a dictionary. name is what messages call the file.
func readDictionary(name, path string) (*codec.Dictionary, error) {
	const command = "`sealctl dict train FILE... -o "
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, advice.Failed(fmt.Errorf("%s: %w", name, err), "make one with "+command+path+"`")
	case !info.Mode().IsRegular() || info.Size() > codec.MaxDictionary:
		return nil, advice.Failed(fmt.Errorf("%s %s is not a file of at most %d bytes", name, path, codec.MaxDictionary), "make one with "+command+path+"`")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d, err := codec.ParseDictionary(content)
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("%s %s: %w", name, path, err), "make one with "+command+path+"`")
	}
	return d, nil
}

// suiteNames is what clients may choose, in the gateway's order.
func (f *inForce) suiteNames() []string {
	var names []string
	for _, id := range f.cfg.Cipher.Suites {
		names = append(names, id.String())
	}
	if f.cfg.Cipher.AllowPlain {
		names = append(names, suite.Plain.String())
	}
	return names
}
