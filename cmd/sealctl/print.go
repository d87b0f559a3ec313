package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/internal/advice"
	"github.com/sealcast/sealcast/wire"
)

// printer writes ticks and events in one of the formats. In the formats text
// and raw only ticks are output; events go where people look.
type printer struct {
	out    *bufio.Writer
	events io.Writer
	json   *json.Encoder // format json, else nil
	raw    bool
}

func newPrinter(format string, stdout, stderr io.Writer) (*printer, error) {
	p := &printer{out: bufio.NewWriterSize(stdout, 64<<10), events: stderr}
	switch format {
	case "text":
	case "raw":
		p.raw = true
	case "json":
		p.json = json.NewEncoder(p.out)
		p.json.SetEscapeHTML(false)
	default:
		return nil, advice.Misuse(fmt.Sprintf("-o: there is no format %q", format), "one of text, json, raw")
	}
	return p, nil
}

func (p *printer) flush() error { return outputError(p.out.Flush()) }

func outputError(err error) error {
	if err != nil {
		return advice.Failed(fmt.Errorf("standard output: %w", err), "")
	}
	return nil
}

// tickLine is a tick as a line of JSON. Exactly one of the payloads is there.
type tickLine struct {
	Topic   string  `json:"topic"`
	Seq     uint64  `json:"seq"`
	Epoch   uint64  `json:"epoch"`
	Skipped uint64  `json:"skipped"`
	Merged  uint64  `json:"merged,omitempty"`
	TimeUS  int64   `json:"time_us"`
	Payload *string `json:"payload,omitempty"`
	Base64  []byte  `json:"payload_base64,omitempty"`
}

func (p *printer) tick(t *client.Tick) error {
	switch {
	case p.json != nil:
		line := tickLine{Topic: t.Topic, Seq: t.Seq, Epoch: t.Epoch, Skipped: t.Skipped, Merged: t.Merged, TimeUS: t.Time.UnixMicro()}
		line.Payload, line.Base64 = jsonPayload(t.Payload)
		return outputError(p.json.Encode(line))
	case p.raw:
		p.out.Write(t.Payload)
		return outputError(p.out.WriteByte('\n'))
	}
	line := p.out.AvailableBuffer()
	line = t.Time.AppendFormat(line, "15:04:05.000000 ")
	line = append(line, t.Topic...)
	line = strconv.AppendUint(append(line, ' '), t.Seq, 10)
	line = appendPrintable(append(line, ' '), t.Payload)
	_, err := p.out.Write(append(line, '\n'))
	return outputError(err)
}

// appendPrintable appends a payload as one line that is safe for a terminal:
// what is not printable is escaped as in Go.
func appendPrintable(dst, payload []byte) []byte {
	for len(payload) > 0 {
		r, size := utf8.DecodeRune(payload)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, '\\', 'x', "0123456789abcdef"[payload[0]>>4], "0123456789abcdef"[payload[0]&15])
		case unicode.IsPrint(r):
			dst = append(dst, payload[:size]...)
		default:
			quoted := strconv.AppendQuoteRune(nil, r)
			dst = append(dst, quoted[1:len(quoted)-1]...)
		}
		payload = payload[size:]
	}
	return dst
}

// eventLine is an event as a line of JSON.
type eventLine struct {
	Event   string  `json:"event"`
	Topic   string  `json:"topic,omitempty"`
	Epoch   uint64  `json:"epoch,omitempty"`
	Seq     uint64  `json:"seq,omitempty"`
	TimeUS  int64   `json:"time_us,omitempty"`
	Payload *string `json:"payload,omitempty"`
	Base64  []byte  `json:"payload_base64,omitempty"`
	Stale   bool    `json:"stale,omitempty"`
	From    *uint64 `json:"from,omitempty"`
	To      *uint64 `json:"to,omitempty"`
	NextSeq *uint64 `json:"next_seq,omitempty"`
	Cause   string  `json:"cause,omitempty"`
	Filter  string  `json:"filter,omitempty"`
	Code    int     `json:"code,omitempty"`
	Text    string  `json:"text,omitempty"`

	aboutSession
}

// aboutSession is what only events of the session have.
type aboutSession struct {
	Kind      string   `json:"kind,omitempty"`
	Topics    []string `json:"topics,omitempty"`
	Merged    uint64   `json:"merged,omitempty"`
	Dropped   uint64   `json:"dropped,omitempty"`
	ExpiresAt int64    `json:"expires_at_s,omitempty"`
	RetryMS   *int64   `json:"retry_ms,omitempty"`
	Resumed   bool     `json:"resumed,omitempty"`
	Seal      string   `json:"seal,omitempty"`
}

// event prints what is neither a tick nor without news for a reader. Topics that
// begin to be delivered are no news: their ticks say so.
func (p *printer) event(e client.Event) error {
	var line eventLine
	var text string
	switch e := e.(type) {
	case *client.Snapshot:
		line, text = snapshotLine(e)
	case *client.Gap:
		line, text = gapLine(e)
	case *client.Reset:
		cause := causeName(e.Cause)
		line = eventLine{Event: "reset", Topic: e.Topic, Epoch: e.Epoch, NextSeq: &e.NextSeq, Cause: cause}
		text = fmt.Sprintf("reset: %s goes on with %d, ticks may be missing (%s)", e.Topic, e.NextSeq, cause)
	case *client.Refused:
		line = eventLine{Event: "refused", Filter: e.Filter, Code: int(e.Code), Text: e.Text}
		text = fmt.Sprintf("refused: %q: %v (%s)", e.Filter, e.Code, e.Text)
	case *client.Notice:
		line, text = noticeLine(e)
	case *client.Disconnected:
		line, text = disconnectedLine(e)
	case *client.Connected:
		line = eventLine{Event: "connected", aboutSession: aboutSession{Resumed: e.Info.Resumed, Seal: sealMode(e.Info)}}
		text = "connected again" + choose(e.Info.Groups, ", ticks are sealed once for a group of sessions", "")
	default:
		return nil
	}
	if p.json != nil {
		return outputError(p.json.Encode(line))
	}
	if err := p.flush(); err != nil { // keeps the order on a terminal
		return err
	}
	fmt.Fprintf(p.events, "sealctl: %s\n", text)
	return nil
}

// causeName is a cause as programs read it.
func causeName(c wire.Cause) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "CAUSE_"))
}

func gapLine(e *client.Gap) (line eventLine, text string) {
	line = eventLine{Event: "gap", Topic: e.Topic, Epoch: e.Epoch, From: &e.From, To: &e.To}
	text = fmt.Sprintf("gap: %s lost %d to %d", e.Topic, e.From, e.To)
	if e.Cause != wire.Cause_CAUSE_UNSPECIFIED {
		line.Cause = causeName(e.Cause)
		text += " (" + line.Cause + ")"
	}
	return line, text
}

// noticeLine is what happens to the session, for programs and for people.
func noticeLine(e *client.Notice) (line eventLine, text string) {
	line = eventLine{Event: "notice", Text: e.Text, aboutSession: aboutSession{
		Kind: strings.ToLower(strings.TrimPrefix(e.Kind.String(), "KIND_")), Topics: e.Topics, Merged: e.Merged, Dropped: e.Dropped}}
	of := "all topics"
	if len(e.Topics) > 0 {
		of = strings.Join(e.Topics, ", ")
	}
	switch e.Kind {
	case wire.Notice_KIND_SLOW:
		text = "this client is slow: ticks wait at the gateway, and may be merged or lost"
	case wire.Notice_KIND_CAUGHT_UP:
		text = fmt.Sprintf("caught up: %d ticks were merged, %d lost", e.Merged, e.Dropped)
	case wire.Notice_KIND_SOURCE_LOST:
		text = "the gateway's Redis is away: values may be out of date, of " + of
	case wire.Notice_KIND_SOURCE_BACK:
		text = "the gateway's Redis is back, for " + of
	case wire.Notice_KIND_TOKEN_EXPIRES:
		line.ExpiresAt = e.ExpiresAt.Unix()
		text = "the token expires, and the session with it, at " + e.ExpiresAt.Format(time.TimeOnly)
	}
	if e.Text != "" {
		text += " (" + e.Text + ")"
	}
	return line, "notice: " + text
}

func disconnectedLine(e *client.Disconnected) (line eventLine, text string) {
	retry := e.RetryIn.Milliseconds()
	line = eventLine{Event: "disconnected", Text: e.Err.Error(), aboutSession: aboutSession{RetryMS: &retry}}
	var closed *client.ClosedError
	if errors.As(e.Err, &closed) {
		line.Code = int(closed.Code)
	}
	return line, fmt.Sprintf("disconnected: %v; trying again in %s", e.Err, short(e.RetryIn))
}

// snapshotLine is a last value for programs and for people.
func snapshotLine(s *client.Snapshot) (line eventLine, text string) {
	line = eventLine{Event: "snapshot", Topic: s.Topic, Epoch: s.Epoch, Seq: s.Seq, Stale: s.Stale}
	if !s.Time.IsZero() {
		line.TimeUS = s.Time.UnixMicro()
	}
	line.Payload, line.Base64 = jsonPayload(s.Payload)
	stale := ""
	if s.Stale {
		stale = " (stale)"
	}
	return line, fmt.Sprintf("snapshot: %s %d%s %s", s.Topic, s.Seq, stale, appendPrintable(nil, s.Payload))
}

// jsonPayload is a payload as text, or as bytes where it is no text.
func jsonPayload(payload []byte) (text *string, raw []byte) {
	if utf8.Valid(payload) {
		s := string(payload)
		return &s, nil
	}
	return nil, payload
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}

// short is a duration for people.
func short(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
