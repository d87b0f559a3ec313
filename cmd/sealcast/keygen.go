package main

import (
	"cmp"
	"crypto/rand"
	"fmt"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/session"
)

// Files that keygen writes unless told otherwise.
const (
	defaultKeyFile       = "sealcast.key"
	defaultTicketKeyFile = "sealcast-tickets.key"
)

// keygen makes a key file: of the static key, or with --ticket of ticket keys.
func (a *app) keygen(args []string) error {
	flags := newFlags("keygen")
	path := flags.String("o", "", "key file to write")
	force := flags.Bool("force", false, "replace an existing key file")
	ticket := flags.Bool("ticket", false, "make a ticket key")
	rotate := flags.Bool("rotate", false, "put a new ticket key in front of the one in use")
	if help, err := a.parse(flags, args, 0); help || err != nil {
		return err
	}
	switch {
	case *rotate && !*ticket:
		return advice.Misuse("keygen: --rotate is for ticket keys", "add --ticket; a new static key needs a file of its own, because clients must know its pin before it is used")
	case *rotate && *force:
		return advice.Misuse("keygen: --rotate and --force exclude each other", "--rotate keeps the key that was in use, --force forgets it")
	case *rotate:
		return a.rotateTicketKeys(cmp.Or(*path, defaultTicketKeyFile))
	case *ticket:
		return a.makeTicketKey(cmp.Or(*path, defaultTicketKeyFile), *force)
	}
	return a.makeStaticKey(cmp.Or(*path, defaultKeyFile), *force)
}

// makeStaticKey gives standard output the public key alone, so that scripts
// can take it.
func (a *app) makeStaticKey(path string, force bool) error {
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		return err
	}
	defer key.Clear()
	content := key.EncodeFile()
	defer clear(content)
	if err := writeKey(path, content, force, "name another with -o FILE; --force replaces it, and clients that pin its key then refuse the gateway"); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "wrote %s (keep it secret); its public key, which clients pin:\n", path)
	return a.print(key.Public().String() + "\n")
}

func (a *app) makeTicketKey(path string, force bool) error {
	key := newTicketKey()
	content := encodeTicketKeys(key)
	defer clear(key)
	defer clear(content)
	if err := writeKey(path, content, force, "--rotate puts a new key in front of the one in use; --force forgets that, and clients then need a full handshake"); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "wrote %s (keep it secret): one ticket key\n", path)
	return nil
}

// rotateTicketKeys makes a new current key. The one before still opens
// tickets; older ones have outlived every ticket and go.
func (a *app) rotateTicketKeys(path string) error {
	keys, err := readTicketKeys("ticket key file", path)
	if err != nil {
		return err
	}
	keys = [][]byte{newTicketKey(), keys[0]}
	content := encodeTicketKeys(keys...)
	defer clear(keys[0])
	defer clear(keys[1])
	defer clear(content)
	if err := writeKey(path, content, true, ""); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "wrote %s (keep it secret): a new ticket key and the one before; SIGHUP makes a running gateway use it\n", path)
	return nil
}
