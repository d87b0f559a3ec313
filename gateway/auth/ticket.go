package auth

import (
	"encoding/binary"
	"errors"
)

// In a session's ticket a Grant is, beside its user and its expiry,
//
//	 0  version        1  1
//	 1  issued         8  Unix seconds
//	 9  authenticated  8  Unix milliseconds
//	17  subscriptions  4
//	21  messages/s     4
//	25  login          1 + length
//	..  token id       1 + length
//	..  rights         1 + length each, to the end
const (
	rightsVersion = 1
	rightsFixed   = 25
)

var errRights = errors.New("rights of another version")

// EncodeRights is what a ticket holds of the grant. Session bounds its length.
func (g *Grant) EncodeRights() []byte {
	out := append(make([]byte, 0, 256), rightsVersion)
	out = binary.BigEndian.AppendUint64(out, uint64(g.Issued))
	out = binary.BigEndian.AppendUint64(out, uint64(g.Authenticated))
	out = binary.BigEndian.AppendUint32(out, uint32(g.Limits.Subscriptions))
	out = binary.BigEndian.AppendUint32(out, uint32(g.Limits.MessagesPerSecond))
	out = appendText(out, g.Login)
	out = appendText(out, g.TokenID)
	for _, f := range g.Rights.filters {
		out = appendText(out, f.String())
	}
	return out
}

func appendText(out []byte, s string) []byte { return append(append(out, byte(len(s))), s...) }

// DecodeGrant reads what EncodeRights wrote.
func DecodeGrant(user string, expires int64, in []byte) (*Grant, error) {
	if len(in) < rightsFixed || in[0] != rightsVersion {
		return nil, errRights
	}
	g := &Grant{
		User: user, Expires: expires,
		Issued: int64(binary.BigEndian.Uint64(in[1:])), Authenticated: int64(binary.BigEndian.Uint64(in[9:])),
		Limits: Limits{int(binary.BigEndian.Uint32(in[17:])), int(binary.BigEndian.Uint32(in[21:]))},
	}
	var texts []string
	for in = in[rightsFixed:]; len(in) > 0; {
		n := int(in[0])
		if len(in) < 1+n {
			return nil, errRights
		}
		texts = append(texts, string(in[1:1+n]))
		in = in[1+n:]
	}
	if len(texts) < 2 {
		return nil, errRights
	}
	g.Login, g.TokenID = texts[0], texts[1]
	var err error
	g.Rights, err = ParseRights(texts[2:])
	return g, err
}
