// Package testenv tells tests how they are run: under the race detector, with a
// new key for every record (SEALCAST_TEST_REKEY=1 go test ./...), with groups, or
// at full size (SEALCAST_LONG=1). It is for tests, never for programs.
package testenv

import (
	"os"
	"strconv"

	"github.com/sealcast/sealcast/crypto/record"
)

// Rekey are the limits for every session of a test: the protocol's own, or key
// changes after as many records as the environment says.
func Rekey() record.Limits {
	n, err := strconv.ParseUint(os.Getenv("SEALCAST_TEST_REKEY"), 10, 64)
	if err != nil {
		return record.Limits{}
	}
	return record.Limits{Records: n}
}

// Long tells whether tests that take minutes are wanted too (SEALCAST_LONG=1).
func Long() bool { return os.Getenv("SEALCAST_LONG") != "" }

// Groups tells whether batches are to be sealed once for groups of sessions
// (SEALCAST_TEST_SEAL=group go test ./...), where a test does not say.
func Groups() bool { return os.Getenv("SEALCAST_TEST_SEAL") == "group" }
