package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write the vectors anew")

const vectorFile = "../testdata/vectors/wire.json"

var clientFrameCases = []struct {
	name  string
	padTo int
	frame *ClientFrame
}{
	{"connect, padded to 1 KiB", 1024, &ClientFrame{Message: &ClientFrame_Connect{Connect: &Connect{
		Token: "eyJhbGciOiJFZERTQSJ9.e30.c2ln", Codecs: []uint32{2, 1, 0}, ClientName: "sealctl", ClientVersion: "0.1.0",
	}}}},
	{"empty connect", 0, &ClientFrame{Message: &ClientFrame_Connect{Connect: &Connect{}}}},
	{"subscribe", 0, &ClientFrame{Message: &ClientFrame_Subscribe{Subscribe: &Subscribe{
		Id: 1, Subscriptions: []*Subscription{{Filter: "md:coinbase:BTC-USD:ticker"}, {Filter: "md:*:*:trade"}, {Filter: "fx:**"}},
	}}}},
	{"unsubscribe", 0, &ClientFrame{Message: &ClientFrame_Unsubscribe{Unsubscribe: &Unsubscribe{Id: 2, Filters: []string{"fx:**", "報價:茅台"}}}}},
	{"ping", 0, ping(1<<64 - 1)},
}

var serverFrameCases = []struct {
	name  string
	frame *ServerFrame
}{
	{"connected", &ServerFrame{Message: &ServerFrame_Connected{Connected: &Connected{
		Session: "b1c2", User: "alice", HeartbeatIntervalMs: 25_000, HeartbeatTimeoutMs: 75_000,
		Limits: &Limits{MessageBytes: 65_536, Subscriptions: 1000}, Version: "0.1.0",
	}}}},
	{"subscribed", &ServerFrame{Message: &ServerFrame_Subscribed{Subscribed: &Subscribed{
		Id: 1, Filters: []string{"md:**"}, Topics: []*TopicState{{Number: 1, Name: "md:a", Epoch: 1<<53 - 1, NextSeq: 1}},
	}}}},
	{"unsubscribed", &ServerFrame{Message: &ServerFrame_Unsubscribed{Unsubscribed: &Unsubscribed{Id: 2, Filters: []string{"md:**"}}}}},
	{"topics", &ServerFrame{Message: &ServerFrame_Topics{Topics: &Topics{
		Topics: []*TopicState{{Number: 2, Name: "md:b", Epoch: 77, NextSeq: 300}, {Number: 3, Name: "md:c", Epoch: 78, NextSeq: 1}},
	}}}},
	{"heartbeat", &ServerFrame{Message: &ServerFrame_Heartbeat{Heartbeat: &Heartbeat{TimeUs: someUS}}}},
	{"error", &ServerFrame{Message: &ServerFrame_Error{Error: &Error{Id: 1, Code: 4403, Text: "not allowed", Filter: "secret:**"}}}},
	{"pong", pong(1<<64 - 1)},
}

// The file's layout. Every implementation of the protocol reads it; messages
// are in the JSON form of protobuf, bytes in hexadecimal.
type vectors struct {
	Comment string          `json:"comment"`
	Client  []frameVector   `json:"client_frames"`
	Server  []frameVector   `json:"server_frames"`
	Batches []batchVector   `json:"batches"`
	Bad     []refusedVector `json:"refused_batches"`
	Goodbye []frameVector   `json:"goodbyes"`
	Refused []refusedVector `json:"refused"`
}

type frameVector struct {
	Name      string          `json:"name"`
	PadTo     int             `json:"pad_to,omitempty"`
	Message   json.RawMessage `json:"message"`
	Plaintext string          `json:"plaintext"`
}

type batchVector struct {
	Name      string       `json:"name"`
	Items     []itemVector `json:"items"`
	Plaintext string       `json:"plaintext"`
}

// itemVector has the numbers of 64 bits as strings: JSON readers round them.
type itemVector struct {
	Topic      uint32          `json:"topic"`
	Seq        uint64          `json:"seq,string"`
	Payload    string          `json:"payload"`
	ReceivedUS int64           `json:"received_us,string"`
	Skipped    uint64          `json:"skipped,string"`
	Reset      json.RawMessage `json:"reset,omitempty"`
}

type refusedVector struct {
	Name      string `json:"name"`
	Plaintext string `json:"plaintext"`
}

// protoJSON is the JSON of a message with the spaces that protojson varies on purpose taken out.
func protoJSON(t *testing.T, m proto.Message) json.RawMessage {
	t.Helper()
	raw, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		t.Fatal(err)
	}
	return compact.Bytes()
}

func buildVectors(t *testing.T) vectors {
	v := vectors{Comment: "Plaintexts of records in the push role, docs/protocol.md sections 5 and 6. " +
		"Unsigned and signed 64-bit numbers are strings, times of receipt count from clock_us. A decoder refuses everything under refused, in both directions. " +
		"Under refused_batches is what can be decoded, and nothing of it may be used (6.4)."}
	for _, c := range clientFrameCases {
		plaintext, err := AppendClientFrame(nil, c.frame, c.padTo)
		if err != nil {
			t.Fatal(err)
		}
		v.Client = append(v.Client, frameVector{c.name, c.padTo, protoJSON(t, c.frame), hex.EncodeToString(plaintext)})
	}
	for _, c := range serverFrameCases {
		plaintext, err := AppendServerFrame(nil, c.frame)
		if err != nil {
			t.Fatal(err)
		}
		v.Server = append(v.Server, frameVector{c.name, 0, protoJSON(t, c.frame), hex.EncodeToString(plaintext)})
	}
	for _, c := range batches[:len(batches)-1] { // the last is 1 MiB
		v.Batches = append(v.Batches, buildBatchVector(t, c.name, c.entries))
	}
	for _, c := range contradictions {
		plaintext, err := AppendServerFrame(nil, &ServerFrame{Message: &ServerFrame_Batch{Batch: c.batch}})
		if err != nil {
			t.Fatal(err)
		}
		v.Bad = append(v.Bad, refusedVector{c.name, hex.EncodeToString(plaintext)})
	}
	bye := &Goodbye{Code: uint32(CloseRestart), Text: "gateway restarts", ReconnectAfterMs: 1500}
	plaintext, err := AppendGoodbye(nil, bye)
	if err != nil {
		t.Fatal(err)
	}
	v.Goodbye = []frameVector{{"restart", 0, protoJSON(t, bye), hex.EncodeToString(plaintext)}}
	for _, c := range refusedFrames {
		v.Refused = append(v.Refused, refusedVector{c.name, hex.EncodeToString(c.plaintext)})
	}
	return v
}

func buildBatchVector(t *testing.T, name string, entries []entry) batchVector {
	b := batchVector{Name: name, Items: []itemVector{}, Plaintext: hex.EncodeToString(AppendBatchFrame(nil, items(entries)))}
	split, err := new(Splitter).Split(message(entries))
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		item := itemVector{Topic: e.topic, Seq: e.seq, Payload: hex.EncodeToString(e.payload), ReceivedUS: split[i].ReceivedUS, Skipped: e.skipped}
		if e.reset != nil {
			item.Reset = protoJSON(t, e.reset)
		}
		b.Items = append(b.Items, item)
	}
	return b
}

// TestVectorsAreCurrent compares the published file with what the code makes.
func TestVectorsAreCurrent(t *testing.T) {
	want, err := json.MarshalIndent(buildVectors(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile(vectorFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what the code makes; if that is meant, run go test ./wire -update and read the difference", vectorFile)
	}
}

// TestVectors uses the published file the way another implementation does.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for _, c := range v.Client {
		got, err := ParseClientFrame(unhex(t, c.Plaintext))
		checkVector(t, c, got, new(ClientFrame), err)
	}
	for _, c := range v.Server {
		got, err := ParseServerFrame(unhex(t, c.Plaintext))
		checkVector(t, c, got, new(ServerFrame), err)
	}
	for _, c := range v.Goodbye {
		got, err := ParseGoodbye(unhex(t, c.Plaintext))
		checkVector(t, c, got, new(Goodbye), err)
	}
	for _, c := range v.Batches {
		checkBatchVector(t, c)
	}
	for _, c := range v.Bad {
		frame, err := ParseServerFrame(unhex(t, c.Plaintext))
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if entries, err := new(Splitter).Split(frame.GetBatch()); !errors.Is(err, ErrBatch) {
			t.Errorf("%s: taken as %v, %v", c.Name, entries, err)
		}
	}
	for _, c := range v.Refused {
		_, errClient := ParseClientFrame(unhex(t, c.Plaintext))
		_, errServer := ParseServerFrame(unhex(t, c.Plaintext))
		if errClient == nil || errServer == nil {
			t.Errorf("%s: taken: from a client %v, from a gateway %v", c.Name, errClient == nil, errServer == nil)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func checkVector(t *testing.T, c frameVector, got, want proto.Message, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", c.Name, err)
		return
	}
	if err := protojson.Unmarshal(c.Message, want); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("%s: parsed %v, want %v", c.Name, got, want)
	}
}

func checkBatchVector(t *testing.T, c batchVector) {
	t.Helper()
	frame, err := ParseServerFrame(unhex(t, c.Plaintext))
	if err != nil {
		t.Errorf("%s: %v", c.Name, err)
		return
	}
	entries, err := new(Splitter).Split(frame.GetBatch())
	if err != nil || len(entries) != len(c.Items) {
		t.Errorf("%s: %d of %d items, %v", c.Name, len(entries), len(c.Items), err)
		return
	}
	for i, want := range c.Items {
		e := &entries[i]
		same := e.Topic == want.Topic && e.Seq == want.Seq && e.Skipped == want.Skipped &&
			hex.EncodeToString(e.Payload) == want.Payload && (e.Reset != nil) == (want.Reset != nil)
		if !same || e.ReceivedUS != want.ReceivedUS {
			t.Errorf("%s: item %d came as %+v", c.Name, i, e)
		}
	}
}
