package session

import "github.com/sealcast/sealcast/wire"

// phase is where a session stands. The zero phase is none: a move to it is forbidden.
type phase uint8

const (
	phaseNone        phase = iota
	phaseNew               // client: nothing sent
	phaseStarting          // client: a job makes HandshakeInit
	phaseAwaitReply        // client: HandshakeInit is out
	phaseTicketing         // client: a job makes ResumeInit
	phaseAwaitResume       // client: ResumeInit is out
	phaseFinishing         // client: a job works on HandshakeReply or ResumeReply
	phaseAwaitInit         // gateway: nothing received
	phaseResuming          // gateway: a job works on ResumeInit
	phaseAwaitFull         // gateway: a resumption was refused
	phaseAnswering         // gateway: a job makes HandshakeReply
	phaseUnproven          // gateway: resumed, but no record has opened; it may be a replay
	phaseOpen              // both: records
	phaseEnded             // both: the peer's Goodbye came; only sending goes on
	phaseClosed            // both: failed or closed
	phases
)

// event is what moves a session on.
type event uint8

const (
	eventUnknown event = iota // a message of no known kind
	eventStart
	eventTicket
	eventJobDone
	eventJobRefused // the job refused a resumption
	eventInit
	eventReply
	eventResumeInit
	eventResumeReply
	eventResumeRefused
	eventRecord
	eventGroupRecord
	eventKeyUpdate
	eventGoodbye
	events
)

// moves is every move there is. What it does not list ends the session.
var moves = [phases][events]phase{
	phaseNew:         {eventStart: phaseStarting, eventTicket: phaseTicketing},
	phaseStarting:    {eventJobDone: phaseAwaitReply},
	phaseAwaitReply:  {eventReply: phaseFinishing},
	phaseTicketing:   {eventJobDone: phaseAwaitResume},
	phaseAwaitResume: {eventResumeReply: phaseFinishing, eventResumeRefused: phaseStarting},
	phaseFinishing:   {eventJobDone: phaseOpen},

	phaseAwaitInit: {eventInit: phaseAnswering, eventResumeInit: phaseResuming},
	phaseResuming:  {eventJobDone: phaseUnproven, eventJobRefused: phaseAwaitFull},
	phaseAwaitFull: {eventInit: phaseAnswering},
	phaseAnswering: {eventJobDone: phaseOpen},

	phaseUnproven: {eventRecord: phaseOpen, eventGoodbye: phaseEnded},
	phaseOpen:     {eventRecord: phaseOpen, eventGroupRecord: phaseOpen, eventKeyUpdate: phaseOpen, eventGoodbye: phaseEnded},
}

// eventOf is the event of a received message. An empty one is of no known kind.
func eventOf(msg []byte) event {
	if len(msg) == 0 {
		return eventUnknown
	}
	switch wire.Kind(msg[0]) {
	case wire.KindRecord:
		return eventRecord
	case wire.KindGroupRecord:
		return eventGroupRecord
	case wire.KindKeyUpdate:
		return eventKeyUpdate
	case wire.KindGoodbye:
		return eventGoodbye
	case wire.KindHandshakeInit:
		return eventInit
	case wire.KindHandshakeReply:
		return eventReply
	case wire.KindResumeInit:
		return eventResumeInit
	case wire.KindResumeReply:
		return eventResumeReply
	case wire.KindResumeRefused:
		return eventResumeRefused
	default:
		return eventUnknown
	}
}
