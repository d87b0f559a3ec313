package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gobwas/ws"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/suite"
)

// tap keeps every byte that a client's TCP connection carries.
type tap struct {
	net.Conn
	mu       sync.Mutex
	up, down bytes.Buffer
}

func (p *tap) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	p.Conn = conn
	return p, err
}

func (p *tap) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down.Write(b[:n])
	return n, err
}

func (p *tap) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up.Write(b[:n])
	return n, err
}

// streams are all bytes of each direction, the client's followed by its payloads
// without their masks, which alone would hide them from a search.
func (p *tap) streams(t *testing.T) map[string][]byte {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	up, down := bytes.Clone(p.up.Bytes()), bytes.Clone(p.down.Bytes())
	r := bufio.NewReader(bytes.NewReader(up))
	if _, err := http.ReadRequest(r); err != nil {
		t.Fatal(err)
	}
	for r.Buffered() > 0 || peeks(r) {
		frame, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		up = append(up, ws.UnmaskFrame(frame).Payload...)
	}
	return map[string][]byte{"from the client": up, "from the gateway": down}
}

func peeks(r *bufio.Reader) bool { _, err := r.Peek(1); return err == nil }

// window is how many bytes in a row give a secret away. By chance eight
// are equal once in 10^10 runs of this test.
const window = 8

// leak returns a part of secret that stands in stream, or "".
func leak(stream []byte, secret string) string {
	for at := 0; at+window <= len(secret); at++ {
		if part := secret[at : at+window]; bytes.Contains(stream, []byte(part)) {
			return part
		}
	}
	return ""
}

const (
	secretTopic   = "md:capture:zanzibar-quetzal:ticker"
	secretPattern = "md:capture:**"
	secretToken   = "token-of-the-nightingale"
	secretName    = "periwinkle-observer"
)

// secretPayload has no eight bytes in common with any other.
func secretPayload(i int) string {
	return fmt.Sprintf(`{"bid":%d.4375,"note":"%s"}`, 88000+i, strings.Repeat(string(rune('A'+i))+"marigold", 20))
}

// TestCaptureShowsNothing searches the raw bytes of whole sessions for parts of
// payloads, topic names and what the client says of itself. Without a cipher
// they are all there, so the search finds what there is to find.
func TestCaptureShowsNothing(t *testing.T) {
	s := start(t)
	for _, id := range suite.All() {
		for _, mode := range []struct {
			name string
			run  func(*testing.T, *system, client.Options) map[string][]string
		}{{"push", pushSecrets}, {"echo", echoSecrets}} {
			t.Run(id.String()+"/"+mode.name, func(t *testing.T) {
				wire := &tap{}
				opts := s.options(id)
				opts.NetDial, opts.Token, opts.Name = wire.dial, secretToken, secretName
				secrets := mode.run(t, s, opts)
				for where, stream := range wire.streams(t) {
					for _, secret := range secrets[where] {
						if part := leak(stream, secret); (part != "") != (id == suite.Plain) {
							t.Errorf("%d bytes %s: found %q of %q", len(stream), where, part, secret)
						}
					}
				}
			})
		}
	}
}

// pushSecrets runs a push session and returns what must not show, by where it
// would.
func pushSecrets(t *testing.T, s *system, opts client.Options) map[string][]string {
	t.Helper()
	ctx := limited(t)
	c, err := client.Dial(ctx, "ws://"+s.addr+"/ws", opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Subscribe(ctx, secretTopic, secretPattern); err != nil {
		t.Fatal(err)
	}
	down := []string{secretTopic}
	for i := range 20 {
		down = append(down, secretPayload(i))
		s.redis.Publish(secretTopic, secretPayload(i))
	}
	for i := 0; i < 20; {
		ev, err := c.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if tick, ok := ev.(*client.Tick); ok {
			if string(tick.Payload) != secretPayload(i) {
				t.Fatalf("tick %d: %q", i, tick.Payload)
			}
			i++
		}
	}
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"from the client":  {secretTopic, secretPattern, secretToken, secretName},
		"from the gateway": down,
	}
}

func echoSecrets(t *testing.T, s *system, opts client.Options) map[string][]string {
	t.Helper()
	ctx := limited(t)
	e, err := client.DialEcho(ctx, "ws://"+s.addr+"/echo", opts)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range 20 {
		all = append(all, secretPayload(i))
		if err := e.Send(ctx, []byte(all[i])); err != nil {
			t.Fatal(err)
		}
		if got, err := e.Receive(ctx); string(got) != all[i] || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{"from the client": all, "from the gateway": all}
}
