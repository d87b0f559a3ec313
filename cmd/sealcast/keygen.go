package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sealcast/sealcast/session"
)

// maxKeyFile bounds what is read of a key file, in bytes.
const maxKeyFile = 4 << 10

// keygen makes a key file. Standard output gets the public key alone, so that
// scripts can take it.
func (a *app) keygen(args []string) error {
	flags := newFlags("keygen")
	path := flags.String("o", "sealcast.key", "key file to write")
	force := flags.Bool("force", false, "replace an existing key file")
	if help, err := a.parse(flags, args, 0); help || err != nil {
		return err
	}
	key, err := session.GenerateStaticKey(rand.Reader)
	if err != nil {
		return err
	}
	defer key.Clear()
	if err := writeKey(*path, key, *force); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "wrote %s (keep it secret); its public key, which clients pin:\n", *path)
	return a.print(key.Public().String() + "\n")
}

// writeKey writes a key file with mode 0600. It replaces a file only by
// force, and then in one step, so that no reader sees half a key.
func writeKey(path string, key *session.StaticKey, force bool) error {
	content := key.EncodeFile()
	defer clear(content)
	target := path
	if force {
		target = filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new-"+rand.Text())
	}
	err := createPrivate(target, content)
	if errors.Is(err, fs.ErrExist) {
		return advise(fmt.Errorf("key file %s exists already", path), "name another with -o FILE; --force replaces it, and clients that pin its key then refuse the gateway")
	}
	if err == nil && force {
		if err = os.Rename(target, path); err != nil {
			_ = os.Remove(target)
		}
	}
	if err != nil {
		return advise(fmt.Errorf("key file: %w", err), "name a file in a folder that exists and that you may write to, with -o FILE")
	}
	return nil
}

// createPrivate writes a file that did not exist, readable by its owner alone.
// It leaves nothing behind if that fails.
func createPrivate(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

// readKey loads a key file that nobody but its owner can read.
func readKey(path string) (*session.StaticKey, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold up the start
	if err != nil {
		return nil, advise(fmt.Errorf("key_file: %w", err), "make one with `sealcast keygen -o "+path+"`, or leave key_file empty for a temporary key")
	}
	defer f.Close()
	if err := checkPrivate(f); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	defer clear(content)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	key, err := session.ParseStaticKey(content)
	if err != nil {
		return nil, advise(fmt.Errorf("key_file %s: %w", path, err), "it must be as `sealcast keygen` wrote it")
	}
	return key, nil
}

func checkPrivate(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("key_file: %w", err)
	case !info.Mode().IsRegular():
		return advise(fmt.Errorf("key_file %s is not a regular file", f.Name()), "name the file that `sealcast keygen` wrote")
	case info.Mode().Perm()&^0o600 != 0:
		return advise(fmt.Errorf("key_file %s has mode %04o: others than its owner may use it", f.Name(), info.Mode().Perm()), "chmod 600 "+f.Name())
	}
	return nil
}
