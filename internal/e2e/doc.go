// Package e2e is the tests that run the real programs: sealcast and sealctl are
// built once and started as processes, against a real redis-server. Nothing can
// import it, and no test here looks inside a program or is ever skipped.
//
// TestRecordedFeeds replays recordings with `sealctl feed --speed max` and
// compares what arrives byte for byte. It makes one up by itself; others are
// named on the command line:
//
//	go test ./internal/e2e -run TestRecordedFeeds -v -timeout 10m -args -recordings '/path/to/*.tsv.gz'
//
// The same by hand, for a recording FEED.tsv.gz and a redis-server on its usual port:
//
//	bin/sealcast serve --set redis.mode=standalone --set redis.addrs=127.0.0.1:6379 \
//	    --set 'topics=[{match: "**", policy: every}]' &
//	bin/sealctl tail ws://127.0.0.1:8080/ws --insecure --topics 'md:**' -o json \
//	    --count "$(zcat FEED.tsv.gz | wc -l)" --for 60s > got.json & tail=$!
//	sleep 1
//	bin/sealctl feed --file FEED.tsv.gz --speed max && wait $tail
//	jq -r 'select(.event) // empty' got.json                    # prints nothing: no gap, no reset
//	diff <(jq -r '[.topic, .payload] | join("\t")' got.json | sort) \
//	    <(zcat FEED.tsv.gz | cut -f2- | sort) && echo complete
package e2e
