package admin

// loginFamilies are who was let in, and what was taken back.
func loginFamilies() []family {
	return []family{
		{name: "sealcast_logins_total", kind: counter, labels: []string{"result"},
			help: "Sessions that were let in (ok), or refused: unauthenticated (4401), forbidden (4403: banned, or another user's ticket), duplicate (4409), busy (1013: tokens could not be verified).",
			values: func(s *sample, add func(float64, ...string)) {
				l := &s.gateway.Logins
				add(float64(l.OK), "ok")
				add(float64(l.Unauthenticated), "unauthenticated")
				add(float64(l.Forbidden), "forbidden")
				add(float64(l.Duplicate), "duplicate")
				add(float64(l.Busy), "busy")
			}},
		{name: "sealcast_token_refreshes_total", kind: counter, labels: []string{"result"}, help: "Tokens of sessions that were exchanged, or not taken.",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.gateway.Logins.Refreshed), "ok")
				add(float64(s.gateway.Logins.RefreshRefused), "refused")
			}},
		{name: "sealcast_revocations_total", kind: counter, labels: []string{"kind"}, help: "Revocations asked for at this gateway.",
			values: func(s *sample, add func(float64, ...string)) {
				r := &s.gateway.Logins.Revocations
				add(float64(r.User), "user")
				add(float64(r.Session), "session")
				add(float64(r.Token), "token")
			}},
		{name: "sealcast_revocations", kind: gauge, help: "Revocations and bans in force.",
			value: func(s *sample) float64 { return float64(s.gateway.Logins.InForce) }},
		{name: "sealcast_revocations_evicted_total", kind: counter, help: "Revocations that were forgotten because there were more than 10,000.",
			value: func(s *sample) float64 { return float64(s.gateway.Logins.Evicted) }},
		{name: "sealcast_sessions_revoked_total", kind: counter, help: "Sessions that ended because they were revoked.",
			value: func(s *sample) float64 { return float64(s.gateway.Logins.Revoked) }},
		{name: "sealcast_control_connected", kind: gauge, help: "1 while this gateway hears the others of its Redis, 0 while it does not.",
			value: func(s *sample) float64 {
				if s.gateway.Logins.Control.Connected {
					return 1
				}
				return 0
			}},
		{name: "sealcast_control_messages_total", kind: counter, labels: []string{"result"},
			help: "What gateways tell each other: heard from others, refused (not of a gateway, or not made with auth.control_secret), lost (not published).",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.gateway.Logins.Heard), "heard")
				add(float64(s.gateway.Logins.Forged), "refused")
				add(float64(s.gateway.Logins.Control.Dropped), "lost")
			}},
		{name: "sealcast_audit_lines_lost_total", kind: counter, help: "Audit lines that were not written: the disk was too slow, full or gone.",
			value: func(s *sample) float64 { return float64(s.gateway.Logins.AuditLost) }},
	}
}
