package client

import (
	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// maxMessage is the longest message that a gateway may send: a group record.
const maxMessage = wire.MaxServerPlaintext + record.GroupHeaderSize + suite.TagSize

// admit passes a message through the session's rules of groups. It reports
// whether the message was about the group alone and is dealt with. The caller
// holds reading.
func (c *Conn) admit(kind wire.Kind, f *wire.ServerFrame) (done bool, err error) {
	c.crypto.Lock()
	done, err = c.sess.Admit(kind, f)
	c.crypto.Unlock()
	if err != nil {
		return false, c.violated(err)
	}
	if kind == wire.KindGroupRecord {
		c.counts.groupRecords.Add(1)
	}
	return done, nil
}
