package wire

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of sealcast.proto that the hand-written encoders below know. They
// are by hand because a gateway sends these messages between ticks, to every
// member of a group in turn.
const (
	fieldServerGroupKey   = 25
	fieldServerGroupMark  = 26
	fieldServerGroupLeave = 27

	fieldGroupID = 1 // of all three

	fieldGroupKeySecret = 2
	fieldGroupKeySuite  = 3
	fieldGroupKeyNext   = 4
	fieldGroupKeyChain  = 5

	fieldGroupMarkCounter = 2
	fieldGroupMarkChain   = 3
)

// AppendGroupKeyFrame appends the plaintext of a record with a GroupKey. Like the
// others here it allocates nothing when dst has room, and keeps nothing. The
// caller clears what was appended, because of the secret in it.
func AppendGroupKeyFrame(dst []byte, id uint32, secret []byte, suite string, next uint64, chain []byte) []byte {
	size := sizeVarintField(fieldGroupID, uint64(id)) +
		sizeBytesField(fieldGroupKeySecret, len(secret)) +
		sizeBytesField(fieldGroupKeySuite, len(suite)) +
		sizeVarintField(fieldGroupKeyNext, next) +
		sizeBytesField(fieldGroupKeyChain, len(chain))
	dst = appendFrameHeader(dst, fieldServerGroupKey, size)
	dst = appendVarintField(dst, fieldGroupID, uint64(id))
	dst = protowire.AppendBytes(protowire.AppendTag(dst, fieldGroupKeySecret, protowire.BytesType), secret)
	dst = protowire.AppendString(protowire.AppendTag(dst, fieldGroupKeySuite, protowire.BytesType), suite)
	dst = appendVarintField(dst, fieldGroupKeyNext, next)
	return protowire.AppendBytes(protowire.AppendTag(dst, fieldGroupKeyChain, protowire.BytesType), chain)
}

// AppendGroupMarkFrame appends the plaintext of a record with a GroupMark.
func AppendGroupMarkFrame(dst []byte, id uint32, counter uint64, chain []byte) []byte {
	size := sizeVarintField(fieldGroupID, uint64(id)) +
		sizeVarintField(fieldGroupMarkCounter, counter) +
		sizeBytesField(fieldGroupMarkChain, len(chain))
	dst = appendFrameHeader(dst, fieldServerGroupMark, size)
	dst = appendVarintField(dst, fieldGroupID, uint64(id))
	dst = appendVarintField(dst, fieldGroupMarkCounter, counter)
	return protowire.AppendBytes(protowire.AppendTag(dst, fieldGroupMarkChain, protowire.BytesType), chain)
}

// AppendGroupLeaveFrame appends the plaintext of a record with a GroupLeave.
func AppendGroupLeaveFrame(dst []byte, id uint32) []byte {
	dst = appendFrameHeader(dst, fieldServerGroupLeave, sizeVarintField(fieldGroupID, uint64(id)))
	return appendVarintField(dst, fieldGroupID, uint64(id))
}

// appendFrameHeader appends what stands before a message of that many bytes.
func appendFrameHeader(dst []byte, field protowire.Number, size int) []byte {
	dst = AppendPlainHeader(dst, CodecNone, 0)
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.BytesType), uint64(size))
}
