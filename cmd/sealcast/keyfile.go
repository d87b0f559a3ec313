package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/session"
)

// maxKeyFile bounds a key file, in bytes.
const maxKeyFile = 4 << 10

// readKey loads the static key. name is what messages call the file.
func readKey(name, path string) (*session.StaticKey, error) {
	content, err := readPrivate(name, path, "sealcast keygen")
	defer clear(content)
	if err != nil {
		return nil, err
	}
	key, err := session.ParseStaticKey(content)
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("%s %s: %w", name, path, err), "it must be as `sealcast keygen` wrote it")
	}
	return key, nil
}

// readTicketKeys loads ticket keys, at least one. name is what messages call the file.
func readTicketKeys(name, path string) ([][]byte, error) {
	const command = "sealcast keygen --ticket"
	content, err := readPrivate(name, path, command)
	defer clear(content)
	if err != nil {
		return nil, err
	}
	keys, err := parseTicketKeys(content)
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("%s %s: %w", name, path, err), "it must be as `"+command+"` wrote it")
	}
	return keys, nil
}

// A file of ticket keys has one key a line, in base64url without padding, the
// current one first. Lines that are empty or begin with # say nothing.
const ticketKeyHead = "# Sealcast ticket keys: keep them secret. The first seals tickets, all of them open tickets.\n"

// parseTicketKeys reads what encodeTicketKeys wrote. Its errors never quote a line.
func parseTicketKeys(content []byte) ([][]byte, error) {
	var keys [][]byte
	number := 0
	for line := range bytes.Lines(content) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		key, err := base64.RawURLEncoding.Strict().AppendDecode(nil, line)
		if err != nil || len(key) != session.TicketKeySize {
			return nil, fmt.Errorf("line %d is not a key of %d bytes in base64url", number, session.TicketKeySize)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("holds no key")
	}
	return keys, nil
}

func encodeTicketKeys(keys ...[]byte) []byte {
	out := []byte(ticketKeyHead)
	for _, key := range keys {
		out = append(base64.RawURLEncoding.AppendEncode(out, key), '\n')
	}
	return out
}

func newTicketKey() []byte {
	key := make([]byte, session.TicketKeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// readPrivate returns the content of a file that nobody but its owner can
// read. command is how such a file is made.
func readPrivate(name, path, command string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not hold up the start
	if err != nil {
		return nil, advice.Failed(fmt.Errorf("%s: %w", name, err), "make one with `"+command+" -o "+path+"`")
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case !info.Mode().IsRegular():
		return nil, advice.Failed(fmt.Errorf("%s %s is not a regular file", name, path), "name the file that `"+command+"` wrote")
	case exposed(info, os.Geteuid()):
		return nil, advice.Failed(fmt.Errorf("%s %s has mode %04o: others than its owner may use it", name, path, info.Mode().Perm()), "chmod 600 "+path)
	case info.Size() > maxKeyFile:
		return nil, advice.Failed(fmt.Errorf("%s %s is longer than %d bytes", name, path, maxKeyFile), "it must be as `"+command+"` wrote it")
	}
	content, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}

// exposed tells whether others than this process's user may use a file. A file
// of another owner may be readable by a group, because then this process reads
// it as a member: so Kubernetes hands out secrets (fsGroup).
func exposed(info fs.FileInfo, user int) bool {
	allowed := fs.FileMode(0o600)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != user && user != 0 {
		allowed = 0o640
	}
	return info.Mode().Perm()&^allowed != 0
}

// writeKey writes a key file with mode 0600. It replaces a file only by force,
// and then in one step, so that no reader sees half a key. exists is the advice
// when there is such a file already.
func writeKey(path string, content []byte, force bool, exists string) error {
	target := path
	if force {
		target = filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new-"+rand.Text())
	}
	err := createPrivate(target, content)
	if errors.Is(err, fs.ErrExist) {
		return advice.Failed(fmt.Errorf("key file %s exists already", path), exists)
	}
	if err == nil && force {
		if err = replace(path, target); err != nil {
			_ = os.Remove(target)
		}
	}
	if err != nil {
		return advice.Failed(fmt.Errorf("key file: %w", err), "name a file in a folder that exists and that you may write to, with -o FILE")
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

// replace puts fresh in the place of path, for the same owner: root may renew
// the key of a gateway that runs as somebody else.
func replace(path, fresh string) error {
	if old, err := os.Stat(path); err == nil {
		if owner, ok := old.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
			if err := os.Chown(fresh, int(owner.Uid), int(owner.Gid)); err != nil {
				return err
			}
		}
	}
	return os.Rename(fresh, path)
}
