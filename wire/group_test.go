package wire

import (
	"bytes"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
)

// TestGroupFrames: what is written by hand is what protobuf reads and writes.
func TestGroupFrames(t *testing.T) {
	secret, chain := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	for _, id := range []uint32{1, 127, 128, math.MaxUint32} {
		for _, n := range []uint64{0, 1, 300, 1 << 23} {
			for _, test := range []struct {
				got  []byte
				want *ServerFrame
			}{
				{AppendGroupKeyFrame(nil, id, secret, "sm4-gcm", n, chain), &ServerFrame{Message: &ServerFrame_GroupKey{
					GroupKey: &GroupKey{Id: id, Secret: secret, Suite: "sm4-gcm", NextCounter: n, Chain: chain}}}},
				{AppendGroupMarkFrame(nil, id, n, chain), &ServerFrame{Message: &ServerFrame_GroupMark{
					GroupMark: &GroupMark{Id: id, Counter: n, Chain: chain}}}},
				{AppendGroupLeaveFrame(nil, id), &ServerFrame{Message: &ServerFrame_GroupLeave{
					GroupLeave: &GroupLeave{Id: id}}}},
			} {
				want, err := AppendServerFrame(nil, test.want)
				if err != nil || !bytes.Equal(test.got, want) {
					t.Errorf("%x, protobuf has %x, %v", test.got, want, err)
				}
				back, err := ParseServerFrame(test.got)
				if err != nil || !proto.Equal(back, test.want) {
					t.Errorf("%v, want %v, %v", back, test.want, err)
				}
			}
		}
	}
}

func TestGroupFramesAllocateNothing(t *testing.T) {
	secret, chain, buf := make([]byte, 32), make([]byte, 32), make([]byte, 0, 256)
	for name, f := range map[string]func(){
		"key":   func() { _ = AppendGroupKeyFrame(buf, 7, secret, "aes-128-gcm", 1, chain) },
		"mark":  func() { _ = AppendGroupMarkFrame(buf, 7, 1, chain) },
		"leave": func() { _ = AppendGroupLeaveFrame(buf, 7) },
	} {
		t.Run(name, func(t *testing.T) {
			if allocs := testing.AllocsPerRun(100, f); allocs != 0 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}
