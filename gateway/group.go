package gateway

import (
	"crypto/rand"
	"math"
	"slices"
	"time"

	"github.com/gobwas/ws"
	"go.uber.org/zap"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway/frame"
	"github.com/sealcast/sealcast/wire"
)

// Groups (docs/protocol.md section 4.5): where the settings say so, a cohort's
// batches are sealed once, and the same bytes are written to all of its members.
// A group's key belongs to one cohort of one loop, so that it has one sealer.
//
// A member is told of its group as late as possible: the key right before the
// first record that it is to open, a mark right before the next message of its
// own session, that it is out right before the first batch of its own. So the
// order of its messages is that of the ticks, whatever seals them.

// groupMembers is how many members a group needs: for one, its own record costs
// as much as a group's, and needs no key and no marks.
const groupMembers = 2

// rotateEvery is the time between two groups of a cohort at least, however many
// members come and go; only a removal by force does not wait. The loop's clock may
// be late by a coarseTick, and so it is never less than a second.
const rotateEvery = time.Second + coarseTick

// group is a key that members of a cohort share.
type group struct {
	sealer   record.GroupSealer
	left     bool // somebody who has the key went of his own accord
	expelled bool // somebody who has the key was sent away
	ended    bool // nothing more is sealed by it
}

// sharing is a cohort's way to seal its batches once.
type sharing struct {
	takes bool     // its members take group records
	suite suite.ID // of all of them
	group *group   // nil: batches are sealed for each
	made  int64    // ms of the loop's clock, when the latest group was made; 0: never
}

// sharing is how c may be sealed for, the same for all of a cohort.
func (c *conn) sharing() sharing {
	return sharing{takes: c.sub.takes, suite: c.sess.Suite()}
}

// key is equal for equal ways to be sealed.
func (x *sharing) key() byte {
	if x.takes {
		return byte(x.suite) | 1<<7
	}
	return byte(x.suite)
}

// member is what a session has been told of groups, and sent of the one it is in.
type member struct {
	in       bool     // of group
	unmarked bool     // records were sent since the last mark
	group    *group   // whose key the client was given last; it may have been cleared
	former   []*group // whose keys it was given before and which may go on
	at       record.GroupPoint
}

// maxFormer bounds member.former. At the rate of messages that sessions have by
// default it takes longer than rotateEvery to fill, so that the group which is then
// counted as one that somebody was sent away from would be replaced anyway.
const maxFormer = 128

// sealedFrame is a frame of the arena, sealed for a group, in scratch.shared.
type sealedFrame struct {
	group      *group // nil: each session seals the frame for itself
	start, end int
	at, after  record.GroupPoint
}

// share lets the frames of the arena be sealed once for a cohort's members, from
// here to the next build.
func (l *loop) share(co *cohort) {
	if l.groupOf(co) != nil {
		l.scratch.sharing = co
	}
}

// unshare ends share. Frames that were sealed for a group are handed out no more,
// and the keys of groups that have ended meanwhile are forgotten.
func (l *loop) unshare() {
	s := &l.scratch
	s.sharing, s.sealed = nil, s.sealed[:0]
	for _, g := range s.retired {
		g.sealer.Clear(l.ciphers)
	}
	clear(s.retired)
	s.retired = s.retired[:0]
}

// groupOf is the group that a cohort's next batch is sealed for. It is nil where
// groups are not wanted or not worth it.
func (l *loop) groupOf(co *cohort) *group {
	x := &co.sharing
	if !x.takes || !l.settings().GroupSeal || len(co.members) < groupMembers {
		l.disband(co)
		return nil
	}
	rested := x.made == 0 || l.now-x.made >= rotateEvery.Milliseconds()
	if g := x.group; g != nil && !g.expelled && !(g.left && rested) {
		return g
	}
	if x.group == nil && !rested {
		return nil // the cohort has fallen apart just now, and may again
	}
	return l.newGroup(co)
}

// newGroup makes a cohort's next group, in place of the one before.
func (l *loop) newGroup(co *cohort) *group {
	l.disband(co)
	number := l.gateway.lastGroup.Add(1)
	if number > math.MaxUint32 {
		return nil // ids are never used again: from now on each session seals for itself
	}
	secret, err := record.NewSecret(rand.Reader)
	if err != nil {
		l.gateway.log.Error("no group", zap.Error(err))
		return nil
	}
	g := &group{}
	g.sealer.Init(co.sharing.suite, uint32(number), secret, l.settings().Session.Limits)
	secret.Clear()
	co.sharing.group, co.sharing.made = g, l.now
	l.stats.groups.made.Add(1)
	return g
}

// disband ends a cohort's group. While frames that it was sealed for are handed
// out, its key is still given to those who need it for them.
func (l *loop) disband(co *cohort) {
	g := co.sharing.group
	co.sharing.group = nil
	switch {
	case g == nil:
		return
	case l.scratch.sharing != nil:
		l.scratch.retired = append(l.scratch.retired, g)
	default:
		g.sealer.Clear(l.ciphers)
	}
	g.ended = true
}

// sealShared is out 7 for a group — it seals the batches of the arena once, each
// behind a frame header.
func (l *loop) sealShared() {
	s := &l.scratch
	s.shared = trim(s.shared)
	for i := range s.frames {
		f, x := &s.frames[i], sealedFrame{start: len(s.shared)}
		if f.batch {
			x.group = l.sealFor(s.sharing, s.arena[f.start:f.end], &x)
		}
		x.end = len(s.shared)
		s.sealed = append(s.sealed, x)
	}
}

// sealFor seals one plaintext for a cohort's group; the cohort may get another
// group for that. It returns the group, nil if there is none.
func (l *loop) sealFor(co *cohort, plaintext []byte, x *sealedFrame) *group {
	g, s := co.sharing.group, &l.scratch
	for g != nil && g.sealer.RekeyDue(l.unix()) {
		g = l.newGroup(co)
	}
	if g == nil {
		return nil
	}
	x.at = g.sealer.Point()
	out := frame.AppendHeader(s.shared, ws.OpBinary, len(plaintext)+g.sealer.Overhead())
	s.shared = g.sealer.Seal(l.ciphers, out, byte(wire.KindGroupRecord), plaintext)
	x.after = g.sealer.Point()
	l.stats.recordsOut.Add(1)
	l.stats.groups.records.Add(1)
	return g
}

// sendArena is out 7 — it appends a frame of the arena to what is written to c:
// as it was sealed for its group, or sealed for c alone.
func (l *loop) sendArena(c *conn, i int) {
	s := &l.scratch
	f := &s.frames[i]
	if s.sharing != nil && f.batch {
		if len(s.sealed) == 0 {
			l.sealShared()
		}
		if x := &s.sealed[i]; x.group != nil {
			c.follow(x)
			s.out = append(s.out, s.shared[x.start:x.end]...)
			return
		}
	}
	if f.batch {
		c.leaveGroup()
	}
	c.sendRecord(wire.KindRecord, s.arena[f.start:f.end])
}

// follow notes that c is sent a record of a group, and gives it the key before if
// c does not stand right there.
func (c *conn) follow(x *sealedFrame) {
	m := c.sub.member
	if m == nil {
		m = &member{}
		c.sub.member = m
	}
	if m.group != x.group || !m.in || m.at.Next != x.at.Next {
		c.mark()
		c.sendGroupKey(x)
		if m.keep(x.group) {
			c.loop.stats.groups.evicted.Add(1)
		}
		m.in = true
	}
	m.at, m.unmarked = x.after, true
}

// keep notes whose key the client was given, and remembers the one before while it
// seals still. It reports whether the oldest of those had to make way.
func (m *member) keep(g *group) (evicted bool) {
	if m.group != nil && m.group != g && !m.group.ended {
		m.former = slices.DeleteFunc(m.former, func(old *group) bool { return old.ended || old == g })
		if len(m.former) == maxFormer {
			m.former[0].expelled, evicted = true, true
			m.former = slices.Delete(m.former, 0, 1)
		}
		m.former = append(m.former, m.group)
	}
	m.group = g
	return evicted
}

func (c *conn) sendGroupKey(x *sealedFrame) {
	l := c.loop
	var room [record.SecretSize]byte
	secret := x.group.sealer.Secret().AppendTo(room[:0])
	plain := wire.AppendGroupKeyFrame(l.scratch.group[:0], x.at.ID, secret, c.sess.Suite().String(), x.at.Next, x.at.Chain[:])
	c.seal(wire.KindRecord, plain)
	clear(secret)
	clear(plain)
	l.scratch.group = plain
	l.stats.groups.keys.Add(1)
}

// mark tells the client what it has been sent of its group, if it does not know.
func (c *conn) mark() {
	if c.sub == nil || c.sub.member == nil || !c.sub.member.unmarked {
		return
	}
	m := c.sub.member
	m.unmarked = false
	c.loop.scratch.group = wire.AppendGroupMarkFrame(c.loop.scratch.group[:0], m.at.ID, m.at.Next, m.at.Chain[:])
	c.seal(wire.KindRecord, c.loop.scratch.group)
	c.loop.stats.groups.marks.Add(1)
}

// leaveGroup takes c out of its group, if it is in one: batches of its own follow.
func (c *conn) leaveGroup() {
	m := c.sub.member
	if m == nil || !m.in {
		return
	}
	c.mark()
	m.in = false
	c.loop.scratch.group = wire.AppendGroupLeaveFrame(c.loop.scratch.group[:0], m.at.ID)
	c.seal(wire.KindRecord, c.loop.scratch.group)
}

// missed notes that c, which may have the key of a cohort's group, is no member of
// the cohort any more.
func (co *cohort) missed(c *conn) {
	switch g := co.sharing.group; {
	case c.sub.barred:
		c.expel()
	case g != nil && c.sub.member != nil && c.sub.member.group == g:
		g.left = true
	}
}

// expel makes sure that nothing which is sealed from here on opens for c by a key
// that it was given.
func (c *conn) expel() {
	if c.sub == nil || c.sub.member == nil {
		return
	}
	m := c.sub.member
	if m.group != nil {
		m.group.expelled = true
	}
	for _, g := range m.former {
		g.expelled = true
	}
	m.former = nil
}
