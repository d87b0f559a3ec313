package gateway_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sealcast/sealcast/client"
	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
	"github.com/sealcast/sealcast/wire"
)

// opensWith tries a key on a record, whatever its header says.
func opensWith(t *testing.T, k *wire.GroupKey, m message) error {
	t.Helper()
	id, _ := suite.ByName(k.Suite)
	secret, ok := record.ParseSecret(k.Secret)
	if !ok {
		t.Fatal("not a secret")
	}
	var g record.GroupOpener
	var at record.GroupPoint
	raw := bytes.Clone(m.raw)
	for _, b := range raw[1:5] {
		at.ID = at.ID<<8 | uint32(b)
	}
	for _, b := range raw[5:13] {
		at.Next = at.Next<<8 | uint64(b)
	}
	g.Init(id, secret, at)
	_, err := g.Open(record.NewPool(1, 0), raw)
	return err
}

// A member that leaves goes on having the key until the rotation, which comes
// within moments; nothing after it opens.
func TestLeaverOpensNothingAfterTheRotation(t *testing.T) {
	s := startGroups(t, nil)
	a, b, gone := follow(t, s, suite.AES128GCM, "md:a"), follow(t, s, suite.AES128GCM, "md:a"), follow(t, s, suite.AES128GCM, "md:a")
	s.hub.publish("md:a", []byte("x"))
	for _, m := range []*follower{a, b, gone} {
		if got := m.expect("key", "group batch")[1]; opensWith(t, m.keys[0], got) != nil {
			t.Fatal("the key does not open its own record, or this test shows nothing")
		}
	}
	gone.unsubscribe("md:a")
	gone.expect("mark", "unsubscribed")
	left := time.Now()
	for len(a.keys) == 1 {
		s.hub.publish("md:a", []byte("y"))
		a.skip("group batch")
		if time.Since(left) > 10*time.Second {
			t.Fatal("no rotation")
		}
	}
	s.hub.publish("md:a", []byte("after"))
	if err := opensWith(t, gone.keys[0], a.skip("group batch")); !errors.Is(err, record.ErrTag) {
		t.Errorf("the old key on a new record: %v", err)
	}
	if err := opensWith(t, a.keys[1], a.nextAfter(s)); err != nil {
		t.Errorf("the new key: %v", err)
	}
}

// nextAfter publishes once more and returns the record.
func (f *follower) nextAfter(s *server) message {
	f.t.Helper()
	s.hub.publish("md:a", []byte("once more"))
	return f.skip("group batch")
}

// A session that the gateway ends itself opens nothing that is sealed afterwards,
// however short ago the group was made.
func TestExpelledMemberIsOutAtOnce(t *testing.T) {
	s := startGroups(t, nil)
	a, b := follow(t, s, suite.AES128GCM, "md:a"), follow(t, s, suite.AES128GCM, "md:a")
	for i := range 5 {
		out := follow(t, s, suite.AES128GCM, "md:a")
		s.hub.publish("md:a", []byte("x"))
		out.skip("group batch")
		a.skip("group batch")
		sessions, _, err := s.Sessions(t.Context(), 0, 10, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.EndSession(t.Context(), sessions[len(sessions)-1].ID, false); err != nil {
			t.Fatal(err)
		}
		out.expect("mark", "goodbye")
		s.hub.publish("md:a", []byte("after"))
		got := a.skip("group batch")
		if len(a.keys) != i+2 {
			t.Fatalf("round %d: %d keys", i, len(a.keys))
		}
		if err := opensWith(t, out.keys[0], got); !errors.Is(err, record.ErrTag) {
			t.Errorf("round %d: the expelled member's key on the next record: %v", i, err)
		}
		if got := b.skip("group batch"); got.GetBatch() == nil {
			t.Fatal("no batch")
		}
	}
}

// A source that takes a filter away from all who have it leaves no key behind.
func TestWithdrawnFilterEndsTheGroup(t *testing.T) {
	s := startGroups(t, nil)
	a, b := follow(t, s, suite.AES128GCM, "md:a", "md:b"), follow(t, s, suite.AES128GCM, "md:a", "md:b")
	s.hub.publish("md:a", []byte("x"))
	for _, m := range []*follower{a, b} {
		m.expect("key", "group batch")
	}
	s.hub.withdraw("md:b")
	for _, m := range []*follower{a, b} {
		m.expect("mark", "unsubscribed", "error")
	}
	s.hub.publish("md:a", []byte("y"))
	got := a.expect("key", "group batch")[1]
	if err := opensWith(t, a.keys[0], got); !errors.Is(err, record.ErrTag) {
		t.Errorf("the key from before: %v", err)
	}
}

// TestLoopsShareNoKey: each loop has a group of its own, and each group one secret.
func TestLoopsShareNoKey(t *testing.T) {
	s := startGroups(t, func(o *gateway.Options) { o.Loops = 4 })
	secrets := map[uint32]string{}
	members := map[uint32]int{}
	var all []*follower
	for range 16 {
		all = append(all, follow(t, s, suite.AES128GCM, "md:a"))
	}
	s.hub.publish("md:a", []byte("x"))
	for _, m := range all {
		m.expect("key", "group batch")
		k := m.keys[0]
		if old, ok := secrets[k.Id]; ok && old != string(k.Secret) {
			t.Errorf("group %d has two secrets", k.Id)
		}
		secrets[k.Id] = string(k.Secret)
		members[k.Id]++
	}
	if len(secrets) != 4 {
		t.Errorf("%d groups on 4 loops: %v", len(secrets), members)
	}
	var seen []string
	for id, secret := range secrets {
		if slices.Contains(seen, secret) {
			t.Errorf("group %d has the secret of another", id)
		}
		seen = append(seen, secret)
	}
}

// Records that a group's limits count: the key goes before the next batch, also in
// the middle of a hand-over.
func TestGroupKeysEndWithTheirRecords(t *testing.T) {
	s := startGroups(t, func(o *gateway.Options) {
		o.Session.Limits = record.Limits{Records: 2}
		o.Batch.MaxTicks = 1
	})
	a, b := follow(t, s, suite.AES128GCM, "md:a"), follow(t, s, suite.AES128GCM, "md:a")
	s.hub.publish("md:a", []byte("1"), []byte("2"), []byte("3"), []byte("4"), []byte("5"))
	for _, m := range []*follower{a, b} {
		m.expect("key", "group batch", "group batch", "mark", "key", "group batch", "group batch", "mark", "key", "group batch")
		ids := map[uint32]bool{}
		for _, k := range m.keys {
			ids[k.Id] = true
		}
		if len(ids) != 3 {
			t.Errorf("%d groups", len(ids))
		}
	}
}

// TestManyWhoComeAndGo: however fast members change, there is at most one new
// group a second.
func TestManyWhoComeAndGo(t *testing.T) {
	s := startGroups(t, nil)
	stay := []*client.Conn{s.dial(t), s.dial(t)}
	for _, c := range stay {
		if _, err := c.Subscribe(t.Context(), "md:a"); err != nil {
			t.Fatal(err)
		}
	}
	begin, changes, n := time.Now(), 0, 0
	visitor := s.dial(t)
	for time.Since(begin) < 2500*time.Millisecond {
		if _, err := visitor.Subscribe(t.Context(), "md:a"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s.hub.publish("md:a", numbered(n, 50))
			for _, c := range append(stay, visitor) {
				if got := nextTick(t, c); !bytes.Equal(got.Payload, numbered(n, 50)) {
					t.Fatalf("tick %d differs", n)
				}
			}
			n++
		}
		if err := visitor.Unsubscribe(t.Context(), "md:a"); err != nil {
			t.Fatal(err)
		}
		changes++
	}
	made := s.Stats().Groups.Made
	if most := 1 + uint64(time.Since(begin)/time.Second); made > most || made < 2 {
		t.Errorf("%d groups for %d changes in %v, want 2 to %d", made, changes, time.Since(begin), most)
	}
	if changes < 20 {
		t.Errorf("only %d changes", changes)
	}
}
