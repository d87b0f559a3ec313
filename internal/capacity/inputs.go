package capacity

import (
	"fmt"
	"slices"
)

// Inputs are a load, what is done with it, and the machines it runs on.
type Inputs struct {
	Clients   int     `json:"clients"`
	Topics    int     `json:"topics"`
	PerClient int     `json:"topics_per_client"`
	Lists     int     `json:"watch_lists"` // different ones; 0: one for each client
	Rate      float64 `json:"ticks_per_topic_per_second"`
	Size      int     `json:"payload_bytes"`
	Connects  float64 `json:"connects_per_second"` // at the worst moment

	DelayMS float64 `json:"batch_delay_ms"`
	Suite   string  `json:"suite"`
	Seal    string  `json:"seal"`  // session or group
	Codec   string  `json:"codec"` // none, snappy or zstd
	Ratio   float64 `json:"ratio"` // of compression; 0: the constants' for the codec

	Machine      Machine `json:"machine"`
	Headroom     float64 `json:"headroom"` // share of processors and links that may be used
	Spare        int     `json:"spare_gateways"`
	HistoryBytes float64 `json:"history_bytes"` // limits.history_bytes
	SlowTotal    float64 `json:"slow_total"`    // slow.total
}

// Machine is what one gateway has.
type Machine struct {
	Cores       int     `json:"cores"`
	MemoryBytes float64 `json:"memory_bytes"`
	LinkBits    float64 `json:"link_bits_per_second"`
	Descriptors int     `json:"descriptors"`
}

// Defaults are those of the gateway's settings, and a machine of middling size.
func Defaults() Inputs {
	return Inputs{
		PerClient: 10, Rate: 1, Size: 200, Connects: 100,
		DelayMS: 5, Suite: "aes-128-gcm", Seal: "session", Codec: "none",
		Machine:  Machine{Cores: 8, MemoryBytes: 16 << 30, LinkBits: 10e9, Descriptors: 1 << 20},
		Headroom: 0.6, Spare: 1, HistoryBytes: 256 << 20, SlowTotal: 1 << 30,
	}
}

// InputError is an input that makes no sense.
type InputError struct{ Name, Text, Hint string }

func (e *InputError) Error() string { return e.Name + ": " + e.Text }

// Bounds of the batches that the gateway makes by default, and of inputs.
const (
	batchTicks   = 256      // batch.max_ticks
	batchBytes   = 16 << 10 // batch.max_bytes
	mostClients  = 1_000_000_000
	mostGateways = 100_000
)

// check names the first input that makes no sense.
func (in *Inputs) check() error {
	suites := []string{"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "sm4-gcm", "plain"}
	m := &in.Machine
	for _, c := range []struct {
		ok               bool
		name, text, hint string
	}{
		{in.Clients >= 1 && in.Clients <= mostClients, "clients", "between 1 and 1,000,000,000", "how many are connected at the same time"},
		{in.Topics >= 1 && in.Topics <= mostClients, "topics", "between 1 and 1,000,000,000", "how many topics ticks are published to"},
		{in.PerClient >= 1 && in.PerClient <= in.Topics, "subscriptions", "between 1 and the number of topics", "how many topics one client follows"},
		{in.Lists >= 0 && in.Lists <= in.Clients, "lists", "between 0 and the number of clients", "how many different watch lists there are; 0: each client has its own"},
		{in.Rate > 0 && in.Rate <= 1e6, "rate", "above 0, up to 1,000,000", "ticks a second of one topic, on average"},
		{in.Size >= 1 && in.Size <= 1<<20, "size", "between 1 byte and 1 MiB", "of one tick's payload"},
		{in.Connects >= 0 && in.Connects <= 1e9, "connects", "cannot be negative", "connections a second, of all clients, after an outage"},
		{in.DelayMS >= 0 && in.DelayMS <= 60_000, "delay", "between 0 and 1m", "batch.max_delay of the gateway"},
		{slices.Contains(suites, in.Suite), "suite", fmt.Sprintf("there is no suite %q", in.Suite), "one of aes-128-gcm, aes-256-gcm, chacha20-poly1305, sm4-gcm, plain"},
		{in.Seal == "session" || in.Seal == "group", "seal", fmt.Sprintf("there is no way %q", in.Seal), "session or group, as fanout.seal of the gateway"},
		{in.Codec == "none" || in.Codec == "snappy" || in.Codec == "zstd", "codec", fmt.Sprintf("there is no codec %q", in.Codec), "none, snappy or zstd"},
		{in.Ratio == 0 || in.Ratio >= 1 && in.Ratio <= 1000, "ratio", "at least 1", "payloads by what is sent of their batch; \"sealctl bench compression\" measures it"},
		{in.Ratio <= 1 || in.Codec != "none", "ratio", "nothing is compressed without a codec", "give --codec snappy or zstd"},
		{m.Cores >= 1 && m.Cores <= 4096, "cores", "between 1 and 4096", "of the machine of one gateway"},
		{m.MemoryBytes >= 1<<27, "memory", "at least 128 MiB", "of the machine of one gateway"},
		{m.LinkBits >= 1e6, "link", "at least 1 Mbit/s", "of the machine of one gateway"},
		{m.Descriptors >= 1024, "descriptors", "at least 1024", "the hard limit of open files of one gateway (ulimit -Hn)"},
		{in.Headroom > 0 && in.Headroom <= 1, "headroom", "above 0, up to 1", "the share of processors and links that may be in use"},
		{in.Spare >= 0 && in.Spare <= 1000, "spare", "between 0 and 1000", "gateways that may be away at the same time"},
		{in.HistoryBytes >= 0 && in.SlowTotal >= 0, "history", "cannot be negative", "limits.history_bytes and slow.total of the gateway"},
	} {
		if !c.ok {
			return &InputError{c.name, c.text, c.hint}
		}
	}
	return nil
}
