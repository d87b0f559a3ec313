package redistest

import (
	"net"
	"testing"
	"time"
)

func TestServerLife(t *testing.T) {
	s := Start(t)
	c := s.Connect()
	c.Do("SET", "k", "v")
	if got := c.Do("GET", "k"); got != "v" {
		t.Errorf("GET = %q", got)
	}

	s.Pause()
	if answers(s.Addr, 50*time.Millisecond) {
		t.Error("a paused server answers")
	}
	s.Resume()
	if got := c.Do("PING"); got != "PONG" {
		t.Errorf("after Resume: %q", got)
	}

	s.Kill()
	s.Kill() // once more is harmless
	if _, err := c.Try("PING"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart()
	if n := s.Do("EXISTS", "k"); n != "0" {
		t.Errorf("a restarted server remembers: %v", n)
	}
}

func answers(addr string, wait time.Duration) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait))
	_, _ = c.Write([]byte("PING\r\n"))
	n, _ := c.Read(make([]byte, 1))
	return n == 1
}

func TestConnAnswers(t *testing.T) {
	s := Start(t)
	c := s.Connect()
	c.Do("RPUSH", "list", "a", "b c")
	if got := c.Do("LRANGE", "list", "0", "-1"); got != "a\nb c" {
		t.Errorf("array: %q", got)
	}
	if got := c.Do("GET", "nothing"); got != "" {
		t.Errorf("nil: %q", got)
	}
	if _, err := c.Try("NONSENSE"); err == nil {
		t.Error("an error passed as an answer")
	}
	sub := s.Connect()
	sub.Do("SUBSCRIBE", "ch")
	c.Publish("ch", "\x00binary\r\n")
	if got, err := sub.Receive(); err != nil || got != "message\nch\n\x00binary\r\n" {
		t.Errorf("message: %q, %v", got, err)
	}
}

func TestSentinelsFailOver(t *testing.T) {
	x := StartSentinels(t)
	before := x.Master()
	before.Kill()
	if after := x.WaitFailover(before); after == before {
		t.Error("the same master")
	}
}

func TestClusterMovesSlotsAndFailsOver(t *testing.T) {
	c := StartCluster(t)
	before := c.Owner("a")
	to := c.Nodes[0]
	if to == before {
		to = c.Nodes[1]
	}
	c.MoveSlot("a", to)
	if got := c.Owner("a"); got != to {
		t.Errorf("the slot is at %s", got.Addr)
	}
	to.Kill()
	c.WaitOwnerNot("a", to)
	c.WaitComplete()
}
