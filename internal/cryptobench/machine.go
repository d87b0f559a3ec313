package cryptobench

import (
	"bytes"
	"cmp"
	"runtime"
	"strings"

	"github.com/sealcast/sealcast/crypto/suite"
)

// Machine is where a run took place.
type Machine struct {
	CPU      string `json:"cpu"` // model, "unknown" where the system does not tell
	Cores    int    `json:"cores"`
	Go       string `json:"go"`
	GOOS     string `json:"goos"`
	GOARCH   string `json:"goarch"`
	AES      AES    `json:"aes"`
	Sealcast string `json:"sealcast,omitempty"` // version of the program
}

// AES is what was found of the instructions that AES-GCM uses.
type AES struct {
	Hardware bool     `json:"hardware"`
	Found    []string `json:"found"`
	Missing  []string `json:"missing"`
}

// DescribeMachine describes the machine that it runs on. cpuinfo is the
// content of Linux's /proc/cpuinfo, empty elsewhere; version is the program's.
func DescribeMachine(cpuinfo []byte, version string) Machine {
	cpu := cmp.Or(modelIn(cpuinfo), systemModel(), "unknown")
	h := suite.Detect()
	return Machine{
		CPU: cpu, Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), GOOS: runtime.GOOS, GOARCH: runtime.GOARCH,
		AES:      AES{Hardware: h.AES, Found: split(h.Found), Missing: split(h.Missing)},
		Sealcast: version,
	}
}

// split is the list that Hardware joins by ", "; never nil, which JSON would
// show as null.
func split(list string) []string {
	if list == "" {
		return []string{}
	}
	return strings.Split(list, ", ")
}

// modelIn finds the processor's model in the content of Linux's
// /proc/cpuinfo; "" if it is not there, as on many arm64 machines.
func modelIn(cpuinfo []byte) string {
	for line := range bytes.Lines(cpuinfo) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		switch string(bytes.TrimSpace(key)) {
		case "model name", "Model", "uarch": // x86 and some arm64; arm boards; riscv64
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}
