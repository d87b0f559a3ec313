package peer

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net/http"
	"strings"

	"github.com/sealcast/sealcast/session"
)

const (
	maxAnswer = 64 << 10
	maxText   = 300 // of a refusal
	// acceptGUID is from RFC 6455 section 1.3.
	acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

// key is the upgrade's nonce. It proves that the answer belongs to the request,
// and needs no secrecy.
func (p *Peer) key() string {
	var nonce [16]byte
	for i := range nonce {
		nonce[i] = p.mask[i%4] + byte(i)
	}
	return base64.StdEncoding.EncodeToString(nonce[:])
}

func (p *Peer) acceptance() string {
	sum := sha1.Sum([]byte(p.key() + acceptGUID))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// upgraded takes the answer to the upgrade, once it is complete.
func (p *Peer) upgraded(out *[]byte, b []byte, h Handler) (int, error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		if len(b) > maxAnswer {
			return 0, failf(KindUpgrade, "an answer without end")
		}
		return 0, nil
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), nil)
	if err != nil {
		return 0, failf(KindUpgrade, "not an answer of HTTP: %w", err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return 0, refusal(answer)
	}
	answer.Body.Close()
	if answer.Header.Get("Sec-WebSocket-Accept") != p.acceptance() {
		return 0, failf(KindUpgrade, "the answer belongs to another request")
	}
	return end + 4, p.begin(out, answer.Header.Get("Sec-WebSocket-Protocol"), h)
}

// UpgradeError is a server's answer other than a WebSocket.
type UpgradeError struct {
	Status int
	Text   string
}

func (e *UpgradeError) Error() string {
	text := "the server answers " + http.StatusText(e.Status)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

func refusal(answer *http.Response) error {
	defer answer.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxText)) // what came is enough
	return &Error{KindUpgrade, &UpgradeError{answer.StatusCode, strings.Join(strings.Fields(string(body)), " ")}}
}

// begin starts the session, if there is to be one.
func (p *Peer) begin(out *[]byte, selected string, h Handler) error {
	if p.cfg.Role == 0 {
		p.phase = ready
		return h.Ready()
	}
	offered := []string{p.cfg.Suite.Protocol()}
	binding := session.Binding{Role: p.cfg.Role, Realm: p.cfg.Realm, Offered: offered, Selected: selected}
	var err error
	if p.sess, err = session.NewClient(p.cfg.Session, p.shared.Ciphers, binding); err != nil {
		return &Error{KindUpgrade, err}
	}
	p.phase = agreeing
	job, err := p.sess.Resume(p.ticket)
	if err != nil {
		return handshakeFailed(err)
	}
	return p.step(out, job)
}
