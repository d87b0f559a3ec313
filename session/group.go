package session

import (
	"fmt"

	"github.com/sealcast/sealcast/crypto/record"
	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/wire"
)

// Groups: a gateway may seal a batch once for many sessions (docs/protocol.md
// section 4.5). A client's session is in one group at a time, or in none:
//
//	GroupKey     the session comes in, at a definite point of the group's records
//	GroupRecord  exactly the next one opens
//	GroupMark    what opened since the last is what the gateway has sent
//	GroupLeave   the session is out
//
// Every other message of the session finds all of the group's records marked, so
// that their order among its own records is as certain as theirs among themselves.

// Admit applies the rules of groups to a message of the push role, which came in
// a message of that kind, in the order of opening. It reports whether the message
// was about the group alone and is dealt with. Every failure ends the session.
func (s *Session) Admit(kind wire.Kind, f *wire.ServerFrame) (done bool, err error) {
	if !s.Established() {
		return false, errClosed
	}
	if kind == wire.KindGroupRecord {
		if f.GetBatch() == nil {
			return false, s.fail(failed(fmt.Errorf("%w: a group record that is no batch", ErrUnexpected)))
		}
		return false, nil
	}
	if m, ok := f.GetMessage().(*wire.ServerFrame_GroupMark); ok {
		return true, s.checkMark(m.GroupMark)
	}
	if err := s.settled(); err != nil {
		return false, err
	}
	switch m := f.GetMessage().(type) {
	case *wire.ServerFrame_GroupKey:
		return true, s.joinGroup(m.GroupKey)
	case *wire.ServerFrame_GroupLeave:
		return true, s.leaveGroup(m.GroupLeave.GetId())
	}
	return false, nil
}

// settled ends the session if records of the group are not marked, although
// another message has come.
func (s *Session) settled() error {
	if s.past != nil && s.past.group != nil && !s.past.group.Settled() {
		return s.fail(failed(fmt.Errorf("%w: records of the group without a mark", ErrUnexpected)))
	}
	return nil
}

// joinGroup comes into a group, in place of the one before.
func (s *Session) joinGroup(m *wire.GroupKey) error {
	id, _ := suite.ByName(m.GetSuite())
	secret, ok := record.ParseSecret(m.GetSecret())
	clear(m.GetSecret())
	at, fits := groupPoint(m.GetId(), m.GetNextCounter(), m.GetChain())
	if !ok || !fits || id != s.suite || at.Next >= record.MaxReceiverCount {
		secret.Clear()
		return s.fail(failed(fmt.Errorf("%w: key of group %d", ErrMalformed, m.GetId())))
	}
	s.forgetGroup()
	s.past.group = new(record.GroupOpener)
	s.past.group.Init(s.suite, secret, at)
	secret.Clear()
	return nil
}

// checkMark compares the gateway's account of the group with this side's.
func (s *Session) checkMark(m *wire.GroupMark) error {
	at, ok := groupPoint(m.GetId(), m.GetCounter(), m.GetChain())
	if !ok {
		return s.fail(failed(fmt.Errorf("%w: mark of group %d", ErrMalformed, m.GetId())))
	}
	if s.past.group == nil {
		return s.fail(failed(fmt.Errorf("%w: mark of group %d", ErrUnexpected, m.GetId())))
	}
	if err := s.past.group.Check(at); err != nil {
		return s.fail(failed(fmt.Errorf("%w: %w", ErrRecord, err)))
	}
	return nil
}

// leaveGroup goes out of the group that the session is in.
func (s *Session) leaveGroup(id uint32) error {
	if s.past.group == nil || s.past.group.ID() != id {
		return s.fail(failed(fmt.Errorf("%w: leaving group %d", ErrUnexpected, id)))
	}
	s.forgetGroup()
	return nil
}

// openGroup opens a group record, in place.
func (s *Session) openGroup(msg []byte) ([]byte, error) {
	if s.past == nil || s.past.group == nil {
		return nil, record.ErrGroup
	}
	return s.past.group.Open(s.pool, msg)
}

func (s *Session) forgetGroup() {
	if s.past.group != nil {
		s.past.group.Clear(s.pool)
		s.past.group = nil
	}
}

// groupPoint reads a point of a group; false if the chain is not one.
func groupPoint(id uint32, next uint64, chain []byte) (at record.GroupPoint, ok bool) {
	at.ID, at.Next = id, next
	return at, copy(at.Chain[:], chain) == record.ChainSize && len(chain) == record.ChainSize
}
