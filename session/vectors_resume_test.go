package session

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/sealcast/sealcast/crypto/suite"
)

// The fixed values of the resumption vectors.
var (
	vectorNow   = time.Unix(1_700_000_000, 0)
	vectorGrant = Grant{Identity: "alice", Rights: []byte("md:**"), Authenticated: 1_699_999_000, TokenExpiry: 1_700_003_600}
)

var vectorResumeAbout = []string{
	"A resumption of docs/protocol.md section 3 from fixed keys, with a ticket of the session in the file that ticket.from names.",
	"The prologue includes the hash of the ticket. A client takes ticket.ticket as opaque; ticket_key is for implementers of gateways.",
}

// sealTicket makes a ticket by the layout in docs/protocol.md alone.
func (r *reference) sealTicket(key, nonce, psk []byte, hybrid bool, realm string, g Grant) []byte {
	static := sha256.Sum256(r.public(r.gatewayStatic))
	seconds := func(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
	flags := []byte{0}
	if hybrid {
		flags[0] = 1
	}
	content := join([]byte{1}, flags, static[:16], psk,
		seconds(vectorNow.Unix()), seconds(vectorNow.Unix()+600), seconds(g.Authenticated), seconds(g.TokenExpiry),
		[]byte{byte(len(realm))}, []byte(realm), []byte{0, byte(len(g.Identity))}, []byte(g.Identity), g.Rights)
	id := r.expand(key, "sealcast v1 ticket key id", 4)
	aead, err := chacha20poly1305.NewX(key)
	must(r.t, err)
	return aead.Seal(join(id, nonce), nonce, content, id)
}

// TestResumptionVectors is TestVectors for resumption.
func TestResumptionVectors(t *testing.T) {
	for _, id := range suite.All() {
		for name, hybrid := range map[string]bool{"classical": false, "hybrid": true} {
			t.Run(id.String()+"-"+name, func(t *testing.T) {
				first, b := vectorReference(t, id, hybrid)
				ticketKey, pskNonce, sealNonce := fixedBytes("ticket key", 32), fixedBytes("psk nonce", 16), fixedBytes("ticket nonce", 24)

				r, _ := vectorReference(t, id, hybrid)
				r.psk = first.pskOf(pskNonce)
				r.ticket = r.sealTicket(ticketKey, sealNonce, r.psk, hybrid, b.Realm, vectorGrant)
				r.clientEphemeral, r.gatewayEphemeral = fixedBytes("client ephemeral of the resumption", 32), fixedBytes("gateway ephemeral of the resumption", 32)
				if hybrid {
					r.kemSeed, r.kemMessage = fixedBytes("ML-KEM seed of the resumption", 64), fixedBytes("ML-KEM message of the resumption", 32)
				}
				r.resume(0)

				want := r.file(b)
				want.About = append(vectorResumeAbout, vectorAbout[1:]...)
				want.Ticket = &vectorTicket{
					From:      "session-" + id.String() + "-" + name + ".json",
					TicketKey: hex.EncodeToString(ticketKey), Nonce: hex.EncodeToString(pskNonce),
					PSK: hex.EncodeToString(r.psk), Ticket: hex.EncodeToString(r.ticket),
				}
				v := storedVector(t, "resumption-"+id.String()+"-"+name+".json", want)
				p := vectorResumeRun(t, first.file(b), v, b, hybrid, join(pskNonce, sealNonce))
				v.ToGateway.check(t, p.client, p.gateway)
				v.ToClient.check(t, p.gateway, p.client)
			})
		}
	}
}

// vectorResumeRun drives the product: the first session, its ticket, which
// must be the vector's, and the resumption.
func vectorResumeRun(t *testing.T, first, v vectorFile, b Binding, hybrid bool, ticketRandom []byte) *pair {
	t.Helper()
	keys, err := NewTicketKeys(unhex(t, v.Ticket.TicketKey))
	must(t, err)
	tickets := &Tickets{Keys: keys, Now: func() time.Time { return vectorNow }}

	p := vectorPair(t, first, b, hybrid, tickets, ticketRandom)
	init, err := start(p.client)
	must(t, err)
	reply, err := receive(p.gateway, init)
	must(t, err)
	_, err = receive(p.client, reply)
	must(t, err)
	ticket, nonce, _, err := p.gateway.NewTicket(vectorGrant)
	must(t, err)
	same(t, "ticket", ticket, v.Ticket.Ticket)
	same(t, "nonce", nonce[:], v.Ticket.Nonce)
	kept, err := p.client.Keep(ticket, nonce)
	must(t, err)
	same(t, "psk", kept.psk[:], v.Ticket.PSK)

	p = vectorPair(t, v, b, hybrid, tickets, nil)
	j, err := p.client.Resume(kept)
	init, err = finish(p.client, j, err)
	must(t, err)
	same(t, "init", init, v.Handshake.Init)
	j, err = p.gateway.Receive(init)
	reply, err = finish(p.gateway, j, err)
	must(t, err)
	must(t, j.Refusal())
	same(t, "reply", reply, v.Handshake.Reply)
	_, err = receive(p.client, reply)
	must(t, err)
	psk := p.client.past.resume.PSK(nonce)
	same(t, "psk of the next ticket", psk[:], hex.EncodeToString((&reference{t: t}).expand(unhex(t, v.ResumeMaster), "sealcast v1 psk"+string(nonce[:]), 32)))
	return p
}
