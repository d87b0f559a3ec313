package wire

import (
	"testing"
	"time"
)

func TestCloseCodes(t *testing.T) {
	const backOff, later = 500 * time.Millisecond, 10 * time.Second
	tests := []struct {
		code   CloseCode
		onWire bool
		again  bool
		delay  time.Duration
		text   string
	}{
		{CloseNormal, true, false, 0, "1000 normal closure"},
		{CloseGoingAway, true, true, backOff, "1001 going away"},
		{CloseProtocolError, true, true, backOff, "1002 WebSocket protocol error"},
		{CloseUnsupported, true, false, 0, "1003 unsupported data"},
		{CloseNoStatus, false, true, backOff, "1005 no status"},
		{CloseInvalidUTF8, true, false, 0, "1007 invalid UTF-8"},
		{ClosePolicy, true, true, backOff, "1008 policy violation"},
		{CloseTooBig, true, false, 0, "1009 message too big"},
		{CloseInternal, true, true, backOff, "1011 internal error"},
		{CloseRestart, true, true, 0, "1012 gateway restarts"},
		{CloseTryLater, true, true, later, "1013 try again later"},
		{CloseBadRecord, true, true, backOff, "4400 protocol or record failure"},
		{CloseUnauthenticated, true, false, 0, "4401 not authenticated"},
		{CloseForbidden, true, false, 0, "4403 not allowed"},
		{CloseTooLate, true, true, backOff, "4408 handshake or authentication too late"},
		{CloseReplaced, true, false, 0, "4409 replaced by another session"},
		{CloseHeartbeatLost, true, true, backOff, "4410 heartbeat lost"},
		{CloseTooSlow, true, true, backOff, "4413 client too slow"},
		{CloseTooMany, true, true, later, "4429 too many requests"},
		{4999, true, true, backOff, "4999"},
	}
	for _, tt := range tests {
		again, delay := tt.code.Reconnect()
		if again != tt.again || delay != tt.delay || tt.code.OnWire() != tt.onWire || tt.code.String() != tt.text {
			t.Errorf("%d: again %v after %v, on wire %v, %q", tt.code, again, delay, tt.code.OnWire(), tt.code)
		}
	}
	for code := range closeText {
		if code != CloseNoStatus && !code.OnWire() {
			t.Errorf("%v cannot be sent", code)
		}
	}
}

func TestOnWireRanges(t *testing.T) {
	ranges := []struct{ from, to CloseCode }{{1000, 1003}, {1007, 1014}, {3000, 4999}}
	for c := range 1 << 16 {
		want := false
		for _, r := range ranges {
			want = want || CloseCode(c) >= r.from && CloseCode(c) <= r.to
		}
		if got := CloseCode(c).OnWire(); got != want {
			t.Errorf("%d on the wire: %v", c, got)
		}
	}
}
