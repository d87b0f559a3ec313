# Adds up what clients were told: reads outputs of `sealctl tail -o json`, one file a client, and says whether the
# ticks of each topic followed each other without a gap but those that the client was told of. Status 1: they did not.

function field(name,    at) { # of the object's own, not of a payload: quotation marks of that are escaped
	if (!match($0, "\"" name "\":(\"[^\"]*\"|[0-9]+|true)")) return ""
	at = substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3)
	gsub(/"/, "", at)
	return at
}

function wrong(text) {
	printf "%s line %d: %s\n%s\n", FILENAME, FNR, text, $0
	faults++
}

{ event = field("event"); topic = FILENAME " " field("topic"); epoch = field("epoch") }

event == "" {
	seq = field("seq") + 0
	merged = field("merged") + 0
	if (topic in at && (epochs[topic] != epoch || seq != at[topic] + merged + 1))
		wrong("tick " seq " of epoch " epoch " after " at[topic] " of epoch " epochs[topic])
	at[topic] = seq
	epochs[topic] = epoch
	ticks++
	all_merged += merged
}

event == "gap" {
	if (topic in at && (epochs[topic] != epoch || field("from") + 0 != at[topic] + 1)) wrong("a gap elsewhere")
	at[topic] = field("to") + 0
	epochs[topic] = epoch
	lost += field("to") - field("from") + 1
}

event == "reset" {
	at[topic] = field("next_seq") - 1
	epochs[topic] = epoch
	resets++
}

event == "disconnected" { ended++ }
event == "connected" { returned++; resumed += field("resumed") == "true" }

END {
	printf "%d ticks received, %d merged into newer ones, %d told as lost; topics began anew %d times\n", ticks, all_merged, lost, resets
	printf "%d connections ended, %d returns, %d of them with a ticket\n", ended, returned, resumed
	if (ticks == 0 || returned == 0) wrong("nothing happened")
	if (ended != returned) wrong("somebody is not back")
	exit faults > 0
}
