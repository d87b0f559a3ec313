package gateway

// phase is where a connection stands. moves has every allowed change.
type phase uint8

const (
	phaseNew       phase = iota // accepted, not yet seen by its loop
	phasePreamble               // a trusted proxy is about to say whose connection it is
	phaseUpgrade                // collecting the HTTP request
	phaseHandshake              // agreeing keys
	phaseConnect                // push: sealed, Connect is due
	phaseLogin                  // push: a token is being verified
	phaseOpen                   // push or sealed echo, in service
	phasePlain                  // unencrypted echo
	phaseClosing                // the last byte is written or queued; waiting for the peer
	phaseClosed
)

var phaseNames = [...]string{"new", "proxy", "upgrade", "handshake", "connect", "login", "open", "open", "closing", "closed"}

// String is for operators, to whom both kinds of service are open.
func (p phase) String() string { return phaseNames[p] }

var moves = [...][]phase{
	phaseNew:       {phasePreamble, phaseUpgrade, phaseClosed},
	phasePreamble:  {phaseUpgrade, phaseClosing, phaseClosed},
	phaseUpgrade:   {phaseHandshake, phasePlain, phaseClosing, phaseClosed},
	phaseHandshake: {phaseConnect, phaseOpen, phaseClosing, phaseClosed},
	phaseConnect:   {phaseLogin, phaseClosing, phaseClosed},
	phaseLogin:     {phaseOpen, phaseClosing, phaseClosed},
	phaseOpen:      {phaseClosing, phaseClosed},
	phasePlain:     {phaseClosing, phaseClosed},
	phaseClosing:   {phaseClosed},
	phaseClosed:    {},
}

func (p phase) mayMove(to phase) bool {
	for _, q := range moves[p] {
		if q == to {
			return true
		}
	}
	return false
}
