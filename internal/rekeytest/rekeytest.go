// Package rekeytest lets the whole test suite run with a new key for every
// record: SEALCAST_TEST_REKEY=1 go test ./... It is for tests, never for programs.
package rekeytest

import (
	"os"
	"strconv"

	"github.com/sealcast/sealcast/crypto/record"
)

// Limits are for every session of a test: the protocol's own, or key changes
// after as many records as the environment says.
func Limits() record.Limits {
	n, err := strconv.ParseUint(os.Getenv("SEALCAST_TEST_REKEY"), 10, 64)
	if err != nil {
		return record.Limits{}
	}
	return record.Limits{Records: n}
}
