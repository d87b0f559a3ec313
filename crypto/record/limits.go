package record

import (
	"cmp"
	"fmt"
	"time"
)

// The most that one key may protect before its sender must change it
// (docs/protocol.md section 4). They keep AES-GCM's confidentiality and
// integrity bounds with a wide margin (RFC 9001 appendix B reckons 2^23
// full-size packets for AES-GCM).
const (
	MaxRecords       = 1 << 20
	MaxBytes         = 64 << 30
	MaxAge           = 10 * time.Minute
	MaxReceiverCount = 1 << 23 // a receiver ends the session here
)

// Limits say when a sender changes its key. Zero fields mean the maximum.
type Limits struct {
	Records uint64        // records under one key
	Bytes   uint64        // plaintext bytes under one key
	Age     time.Duration // since the key's first record; counted in whole seconds
}

// Check reports a limit above the protocol's maximum or an age below a second.
func (l Limits) Check() error {
	switch {
	case l.Records > MaxRecords:
		return fmt.Errorf("rekey after %d records: at most %d", l.Records, uint64(MaxRecords))
	case l.Bytes > MaxBytes:
		return fmt.Errorf("rekey after %d bytes: at most %d", l.Bytes, uint64(MaxBytes))
	case l.Age > MaxAge || l.Age < 0 || l.Age > 0 && l.Age < time.Second:
		return fmt.Errorf("rekey after %v: between 1s and %v", l.Age, MaxAge)
	}
	return nil
}

// limits are Limits that Check has passed, with every number filled in.
type limits struct {
	bytes            uint64
	records, seconds uint32
}

func (l Limits) resolve() limits {
	return limits{
		records: uint32(cmp.Or(l.Records, MaxRecords)),
		bytes:   cmp.Or(l.Bytes, MaxBytes),
		seconds: uint32(cmp.Or(l.Age, MaxAge) / time.Second),
	}
}

// use is what a sender's key has been used for, against its limits.
type use struct {
	bytes  uint64 // plaintext under the current key
	until  int64  // seconds: when the current key is too old
	limits limits
}

// due reports whether the key must be changed before its record with that
// counter. The key's age counts from the first one.
func (u *use) due(counter uint64, now int64) bool {
	if counter == 0 {
		u.until = now + int64(u.limits.seconds)
		return false
	}
	return counter >= uint64(u.limits.records) || u.bytes >= u.limits.bytes || now >= u.until
}
