package admin

import (
	"slices"
	"strconv"

	"github.com/sealcast/sealcast/crypto/suite"
	"github.com/sealcast/sealcast/gateway"
)

// families are all metrics of ours; docs/metrics.md is made of them. Every label
// has a fixed set of values, whatever clients do.
func families() []family {
	return slices.Concat(connectionFamilies(), loginFamilies(), trafficFamilies(), tickFamilies(), sourceFamilies(), loopFamilies())
}

func connectionFamilies() []family {
	return []family{
		{name: "sealcast_build_info", kind: gauge, labels: []string{"version"}, help: "Always 1.",
			values: func(s *sample, add func(float64, ...string)) { add(1, s.version) }},
		{name: "sealcast_connections", kind: gauge, help: "Connections of clients that are open.",
			value: func(s *sample) float64 { return float64(s.gateway.Connections) }},
		{name: "sealcast_connections_accepted_total", kind: counter, help: "Connections given to an event loop.",
			value: func(s *sample) float64 { return float64(s.gateway.Accepted) }},
		{name: "sealcast_connections_refused_total", kind: counter, labels: []string{"reason"},
			help: "Connections not taken: over a limit, on the deny list, without the PROXY protocol header that is due, or because of an error.",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.gateway.Refused), "limit")
				add(float64(s.gateway.Denied), "denied")
				add(float64(s.gateway.BadProxy), "proxy_header")
				add(float64(s.gateway.EnrollFailed), "error")
			}},
		{name: "sealcast_handshakes_total", kind: counter, labels: []string{"suite", "result"},
			help:   "Handshakes that ended: ok, resumed (with a ticket), failed, busy (told 1013), late, gone (the client left or the gateway restarts).",
			values: handshakes},
		{name: "sealcast_tickets_refused_total", kind: counter, help: "Tickets not accepted; the clients went on with a full handshake.",
			value: func(s *sample) float64 { return float64(s.gateway.TicketsRefused) }},
		{name: "sealcast_closes_total", kind: counter, labels: []string{"code", "by"},
			help:   "Ends of upgraded connections by close code and by who closed, gateway or client; 1006 is a connection lost without a close.",
			values: closes},
	}
}

func handshakes(s *sample, add func(float64, ...string)) {
	for _, id := range suite.All() {
		r := s.gateway.Handshakes[id]
		add(float64(r.OK), id.String(), "ok")
		add(float64(r.Resumed), id.String(), "resumed")
		add(float64(r.Failed), id.String(), "failed")
		add(float64(r.Busy), id.String(), "busy")
		add(float64(r.Late), id.String(), "late")
		add(float64(r.Gone), id.String(), "gone")
	}
}

func closes(s *sample, add func(float64, ...string)) {
	for _, c := range s.gateway.Closes {
		code := "other"
		if c.Code != 0 {
			code = strconv.Itoa(int(c.Code))
		}
		add(float64(c.ByGateway), code, "gateway")
		add(float64(c.ByClient), code, "client")
	}
}

func trafficFamilies() []family {
	return []family{
		{name: "sealcast_records_total", kind: counter, labels: []string{"direction"}, help: "Records opened (in) and sealed (out).",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.gateway.RecordsOpened), "in")
				add(float64(s.gateway.RecordsSealed), "out")
			}},
		{name: "sealcast_socket_bytes_total", kind: counter, labels: []string{"direction"},
			help: "Bytes of clients' connections, upgrades and frame headers included.",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.gateway.BytesIn), "in")
				add(float64(s.gateway.BytesOut), "out")
			}},
		{name: "sealcast_group_records_total", kind: counter, help: "Batches that were sealed once for a group of sessions (fanout.seal: group).",
			values: func(s *sample, add func(float64, ...string)) { add(float64(s.gateway.Groups.Records)) }},
		{name: "sealcast_group_keys_total", kind: counter, labels: []string{"event"},
			help: "Keys of groups: made, each for another group (made); given to a member (given); replaced early because a member had been given 128 others that go on (evicted).",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.gateway.Groups.Made), "made")
				add(float64(s.gateway.Groups.Keys), "given")
				add(float64(s.gateway.Groups.Evicted), "evicted")
			}},
		{name: "sealcast_group_marks_total", kind: counter, help: "Marks, by which members check what they were sent of their group.",
			values: func(s *sample, add func(float64, ...string)) { add(float64(s.gateway.Groups.Marks)) }},
		{name: "sealcast_batch_ticks", kind: histogram, help: "Ticks of a batch, which is built once for all sessions with the same subscriptions.",
			spread: func(s *sample) gateway.Distribution { return s.gateway.Times.BatchTicks }},
		{name: "sealcast_batch_bytes", kind: histogram, help: "Bytes of a batch before encryption.",
			spread: func(s *sample) gateway.Distribution { return s.gateway.Times.BatchBytes }},
		{name: "sealcast_compression_bytes_total", kind: counter, labels: []string{"stage"},
			help: "Bytes of batches before and after compression, which happens once for all sessions with the same subscriptions; batches that were left as they are do not count.",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.gateway.CompressedFrom), "before")
				add(float64(s.gateway.CompressedTo), "after")
			}},
		{name: "sealcast_batch_delay_seconds", kind: histogram,
			help:   "Time from the arrival of a batch's first tick from Redis until the batch is built; one batch in 16.",
			spread: func(s *sample) gateway.Distribution { return s.gateway.Times.BatchDelay }},
		{name: "sealcast_seal_seconds", kind: histogram, help: "Time to seal a record; one record in 256.",
			spread: func(s *sample) gateway.Distribution { return s.gateway.Times.Seal }},
		{name: "sealcast_open_seconds", kind: histogram, help: "Time to open a record; one record in 256.",
			spread: func(s *sample) gateway.Distribution { return s.gateway.Times.Open }},
		{name: "sealcast_cipher_lookups_total", kind: counter, labels: []string{"result"},
			help: "Records whose expanded key was kept (hit), had to be expanded (miss), or was expanded without being kept (bypass).",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.gateway.Ciphers.Hits), "hit")
				add(float64(s.gateway.Ciphers.Misses), "miss")
				add(float64(s.gateway.Ciphers.Bypassed), "bypass")
			}},
		{name: "sealcast_ciphers_evicted_total", kind: counter, help: "Expanded keys dropped because they were idle.",
			value: func(s *sample) float64 { return float64(s.gateway.Ciphers.Evicted) }},
		{name: "sealcast_ciphers", kind: gauge, help: "Expanded keys that are kept.",
			value: func(s *sample) float64 { return float64(s.gateway.Ciphers.Kept) }},
	}
}

func tickFamilies() []family {
	return []family{
		{name: "sealcast_ticks_received_total", kind: counter, help: "Ticks from Redis that were numbered.",
			value: func(s *sample) float64 { return float64(s.hub.Received) }},
		{name: "sealcast_ticks_received_bytes_total", kind: counter, help: "Payloads of these ticks.",
			value: func(s *sample) float64 { return float64(s.hub.ReceivedBytes) }},
		{name: "sealcast_ticks_delivered_total", kind: counter, help: "Ticks sealed for a session, each session counted.",
			value: func(s *sample) float64 { return float64(s.gateway.Delivered) }},
		{name: "sealcast_ticks_merged_total", kind: counter, help: "Ticks that such a tick stands for besides itself, each session counted.",
			value: func(s *sample) float64 { return float64(s.gateway.Merged) }},
		{name: "sealcast_slow_ticks_dropped_total", kind: counter, help: "Ticks that slow sessions were told as gaps.",
			value: func(s *sample) float64 { return float64(s.gateway.Dropped) }},
		{name: "sealcast_slow_gaps_total", kind: counter, help: "Gaps told to slow sessions.",
			value: func(s *sample) float64 { return float64(s.gateway.Gaps) }},
		{name: "sealcast_slow_total_reached_total", kind: counter, help: "Times that more than slow.total waited and the session with most overflowed.",
			value: func(s *sample) float64 { return float64(s.gateway.OverTotal) }},
		{name: "sealcast_ticks_dropped_total", kind: counter, labels: []string{"reason"},
			help: "Ticks from Redis that were lost: the gateway's queue was full, they were longer than limits.tick, or their topic was one too many.",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.hub.Dropped), "queue_full")
				add(float64(s.hub.Oversized), "too_large")
				add(float64(s.hub.Kept.TopicsRefused), "too_many_topics")
			}},
		{name: "sealcast_topic_resets_total", kind: counter, help: "New epochs of topics, which are gaps for their subscribers.",
			value: func(s *sample) float64 { return float64(s.hub.Resets) }},
		{name: "sealcast_topics", kind: gauge, help: "Topics that somebody is subscribed to.",
			value: func(s *sample) float64 { return float64(s.hub.Topics) }},
		{name: "sealcast_topics_stale", kind: gauge, help: "Topics of these for which no ticks can come at the moment: Redis, or the node that has them, is away.",
			value: func(s *sample) float64 { return float64(s.hub.Stale) }},
		{name: "sealcast_kept_ticks", kind: gauge, help: "Last values and histories of topics, in ticks.",
			value: func(s *sample) float64 { return float64(s.hub.Kept.Ticks) }},
		{name: "sealcast_kept_bytes", kind: gauge, help: "What they count for in limits.history_bytes.",
			value: func(s *sample) float64 { return float64(s.hub.Kept.Bytes) }},
		{name: "sealcast_kept_ticks_evicted_total", kind: counter, help: "Kept ticks that had to go because of limits.history_bytes.",
			value: func(s *sample) float64 { return float64(s.hub.Kept.Evicted) }},
		{name: "sealcast_topic_seeds_total", kind: counter, labels: []string{"result"},
			help: "First values of topics that were read from Redis and kept, and those that could not be read or were longer than limits.tick.",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.hub.Kept.Seeds), "kept")
				add(float64(s.hub.Kept.SeedsFailed), "failed")
			}},
		{name: "sealcast_filters", kind: gauge, help: "Names and patterns that sessions are subscribed to, each counted once for each event loop.",
			value: func(s *sample) float64 { return float64(s.hub.Filters) }},
	}
}

func sourceFamilies() []family {
	return []family{
		{name: "sealcast_source_ready", kind: gauge, help: "1 while ticks come from Redis, 0 while they do not.",
			value: func(s *sample) float64 {
				if s.ready {
					return 1
				}
				return 0
			}},
		{name: "sealcast_source_connections_lost_total", kind: counter, help: "Connections to Redis that were lost.",
			value: func(s *sample) float64 { return float64(s.hub.Lost) }},
		{name: "sealcast_source_subscriptions", kind: gauge, help: "Subscriptions at Redis.",
			value: func(s *sample) float64 { return float64(s.hub.Subscriptions) }},
		{name: "sealcast_source_filters_refused_total", kind: counter, help: "Names and patterns that Redis did not allow.",
			value: func(s *sample) float64 { return float64(s.hub.Refused) }},
		{name: "sealcast_source_messages_ignored_total", kind: counter, labels: []string{"reason"},
			help: "Messages of Redis that are no ticks of ours: copies, on channels nobody wants, or with names that are no topics.",
			values: func(s *sample, add func(float64, ...string)) {
				add(float64(s.hub.Copies), "copy")
				add(float64(s.hub.Unmatched), "unwanted")
				add(float64(s.hub.Invalid), "invalid_name")
			}},
		{name: "sealcast_source_queue_messages", kind: gauge, help: "Messages of Redis that wait to be numbered.",
			value: func(s *sample) float64 { return float64(s.hub.QueueTicks) }},
		{name: "sealcast_source_queue_bytes", kind: gauge, help: "Their bytes.",
			value: func(s *sample) float64 { return float64(s.hub.QueueBytes) }},
	}
}

func loopFamilies() []family {
	return []family{
		{name: "sealcast_loop_lag_seconds", kind: histogram, help: "Time from the wish to wake an event loop until it does; five times a second for each loop or more.",
			spread: func(s *sample) gateway.Distribution { return s.gateway.Times.Lag }},
		{name: "sealcast_loop_stalls_total", kind: counter, help: "Times that an event loop was busy for more than 100 ms without a pause.",
			value: func(s *sample) float64 { return float64(s.gateway.Stalls) }},
		{name: "sealcast_panics_total", kind: counter, help: "Panics, each of which cost one connection, or those of a loop that take ticks.",
			value: func(s *sample) float64 { return float64(s.gateway.Panics) }},
		{name: "sealcast_mailbox_letters", kind: gauge, help: "Hand-overs and other work that wait for the event loops.",
			value: func(s *sample) float64 { return float64(s.gateway.Queues.Letters) }},
		{name: "sealcast_mailbox_bytes", kind: gauge, help: "Ticks that wait for the event loops.",
			value: func(s *sample) float64 { return float64(s.gateway.Queues.LetterBytes) }},
		{name: "sealcast_handshakes_waiting", kind: gauge, help: "Handshakes that wait for a worker.",
			value: func(s *sample) float64 { return float64(s.gateway.Queues.Handshakes) }},
		{name: "sealcast_slow_sessions", kind: gauge, help: "Sessions that do not keep up.",
			value: func(s *sample) float64 { return float64(s.gateway.Queues.SlowSessions) }},
		{name: "sealcast_slow_queue_bytes", kind: gauge, help: "Ticks that wait for sessions that do not keep up.",
			value: func(s *sample) float64 { return float64(s.gateway.Queues.SlowBytes) }},
	}
}
