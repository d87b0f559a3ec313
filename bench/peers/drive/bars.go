package drive

// bar is one of the aims: a quotient that is to be at most so much.
type bar struct {
	title   string
	values  func(*Results) []float64 // one for each round; none: not measured
	most    float64
	stretch float64 // 0: there is none
	unit    string  // what values are; empty: a quotient
}

func costOf(s Sample) float64 { return s.ServerNS }

// ratio is a contestant's cost beside another's at the same work, round by round.
func ratio(work, a, b string) func(*Results) []float64 {
	return paired(work, a, work, b, func(a, b Sample) float64 { return a.ServerNS / b.ServerNS })
}

func paired(workA, a, workB, b string, f func(a, b Sample) float64) func(*Results) []float64 {
	return func(r *Results) (values []float64) {
		others := r.of(workB, b)
		for i, s := range r.of(workA, a) {
			if i < len(others) {
				values = append(values, f(s, others[i]))
			}
		}
		return values
	}
}

// added is what sealing adds to a message, beside the cipher alone.
func added(work, bareWork string) func(*Results) []float64 {
	return func(r *Results) (values []float64) {
		sealed, open, bare := r.of(work, ourAES), r.of(work, ourPlain), r.of(bareWork, bareCrypto)
		for i := range min(len(sealed), len(open), len(bare)) {
			values = append(values, (sealed[i].ServerNS-open[i].ServerNS)/bare[i].ServerNS)
		}
		return values
	}
}

func perSession(contestant string) func(*Results) []float64 {
	return func(r *Results) (values []float64) {
		for _, s := range r.of("idle", contestant) {
			values = append(values, s.PerSession)
		}
		return values
	}
}

func memoryRatio(a, b string) func(*Results) []float64 {
	return paired("idle", a, "idle", b, func(a, b Sample) float64 { return a.PerSession / b.PerSession })
}

// bars are all aims that a run can decide.
func bars() []bar {
	const echo16, echo1, echo1000 = "echo-plain-64B-100c-16w", "echo-plain-64B-100c-1w", "echo-plain-64B-1000c-1w"
	const small1, large1, small16, large16 = "echo-sealed-64B-100c-1w", "echo-sealed-1024B-100c-1w", "echo-sealed-64B-100c-16w", "echo-sealed-1024B-100c-16w"
	const single, full, wide = "fanout-1000x1", "fanout-1000x50", "fanout-5000x50"
	return []bar{
		{"plain echo, 64 B, 100 × 16, against gws", ratio(echo16, ourPlainEcho, ofGWS), 1. / 7, 0, ""},
		{"plain echo, 64 B, 100 × 16, against gorilla", ratio(echo16, ourPlainEcho, ofGorilla), 1. / 9, 0, ""},
		{"plain echo, 64 B, 100 × 16, against the raw epoll loop", ratio(echo16, ourPlainEcho, rawEpoll), 1.15, 1, ""},
		{"plain echo, 64 B, 100 × 1, against gws", ratio(echo1, ourPlainEcho, ofGWS), 1, 0.8, ""},
		{"plain echo, 64 B, 100 × 1, against the raw epoll loop", ratio(echo1, ourPlainEcho, rawEpoll), 1.15, 0, ""},
		{"plain echo, 64 B, 1,000 × 1, against gws", ratio(echo1000, ourPlainEcho, ofGWS), 1, 0.8, ""},
		{"plain echo, 64 B, 1,000 × 1, against the raw epoll loop", ratio(echo1000, ourPlainEcho, rawEpoll), 1.15, 0, ""},
		{"sealed echo against own plain, 64 B, 1 in flight", ratio(small1, ourAES, ourPlain), 1.2, 1.1, ""},
		{"sealed echo against own plain, 1 KiB, 1 in flight", ratio(large1, ourAES, ourPlain), 1.3, 1.2, ""},
		{"sealed echo, 16 in flight: time added, in Open + Seal alone, 64 B", added(small16, "bare-64B"), 1.2, 1.1, ""},
		{"sealed echo, 16 in flight: time added, in Open + Seal alone, 1 KiB", added(large16, "bare-1024B"), 1.2, 1.1, ""},
		{"sealed echo against gws with TLS 1.3, 64 B, 16 in flight", ratio(small16, ourAES, gwsTLS), 1. / 7, 0, ""},
		{"sealed echo against gws with TLS 1.3, 1 KiB, 16 in flight", ratio(large16, ourAES, gwsTLS), 1 / 3.5, 0, ""},
		{"sealed echo against gws with TLS 1.3, 64 B, 1 in flight", ratio(small1, ourAES, gwsTLS), 0.9, 0.75, ""},
		{"sealed echo against gws with TLS 1.3, 1 KiB, 1 in flight", ratio(large1, ourAES, gwsTLS), 0.9, 0.75, ""},
		{"sealed fan-out, 1,000 subscribers, single ticks, against gws.Broadcaster in plaintext", ratio(single, ourAES, broadcaster), 1. / 6, 1. / 8, ""},
		{"sealed fan-out, 1,000 subscribers, single ticks, against nats-server", ratio(single, ourAES, ofNATS), 0.7, 0.5, ""},
		{"sealed fan-out, 1,000 subscribers, single ticks, against centrifuge", ratio(single, ourAES, ofCentrifuge), 1. / 10, 1. / 15, ""},
		{"sealed fan-out, 1,000 subscribers, 50 a batch, against centrifuge", ratio(full, ourAES, ofCentrifuge), 1. / 8, 1. / 10, ""},
		{"sealed fan-out, 1,000 subscribers, 50 a batch, against centrifuge with delayed writes", ratio(full, ourAES, centrifugeDelayed), 1. / 8, 1. / 10, ""},
		{"sealed fan-out, 1,000 subscribers, 50 a batch, against nats-server", ratio(full, ourAES, ofNATS), 1. / 3, 1. / 4, ""},
		{"sealed fan-out, 1,000 subscribers, 50 a batch, against own plain", ratio(full, ourAES, ourPlain), 1.3, 1.15, ""},
		{"fan-out in group mode, 1,000 subscribers, 50 a batch, against own plain", ratio(full, ourGroup, ourPlain), 1.05, 0, ""},
		{"sealed fan-out, 5,000 subscribers, 50 a batch, against centrifuge", ratio(wide, ourAES, ofCentrifuge), 1. / 15, 1. / 20, ""},
		{"sealed fan-out, 5,000 subscribers, 50 a batch, against centrifuge with delayed writes", ratio(wide, ourAES, centrifugeDelayed), 1. / 15, 1. / 20, ""},
		{"idle memory, plain", perSession(ourPlain), 1000, 0, "B"},
		{"idle memory, AES-128-GCM", perSession(ourAES), 3000, 1500, "B"},
		{"idle memory, ChaCha20-Poly1305", perSession(ourChaCha), 1300, 0, "B"},
		{"idle memory, AES-128-GCM against gws", memoryRatio(ourAES, ofGWS), 1. / 3, 0, ""},
		{"P99 of the delay, max_delay 0, against go-redis alone", paired("delay", ourAES, "delay", bareRedis,
			func(a, b Sample) float64 { return a.P99 / b.P99 }), 2, 1.3, ""},
	}
}
