package suite

import (
	"bytes"
	"runtime"
	"strings"
)

// Hardware is what this process may use of the processor's instructions.
type Hardware struct {
	// AES tells that AES-GCM runs on instructions: AES rounds, carry-less
	// multiplication, and what the standard library needs beside them.
	AES bool
	// Arch is the architecture, as Go names it.
	Arch string
	// Found and Missing list the instructions looked for, joined by ", ".
	Found, Missing string
}

// Detect looks at the processor through golang.org/x/sys/cpu, so a feature
// that GODEBUG switches off (GODEBUG=cpu.aes=off) counts as missing; the
// standard library reads the same setting and then computes AES in software.
func Detect() Hardware {
	h := Hardware{AES: true, Arch: runtime.GOARCH}
	var found, missing []string
	for _, f := range features() {
		if f.present {
			found = append(found, f.name)
			continue
		}
		missing = append(missing, f.name)
		h.AES = false
	}
	h.Found, h.Missing = strings.Join(found, ", "), strings.Join(missing, ", ")
	return h
}

// feature is one instruction set extension that hardware AES-GCM needs.
type feature struct {
	name    string
	present bool
}

// String is one line for the log.
func (h Hardware) String() string {
	switch {
	case h.AES:
		return h.Arch + ": AES-GCM in hardware (" + h.Found + ")"
	case h.Found == "":
		return h.Arch + ": AES-GCM in software (missing " + h.Missing + ")"
	default:
		return h.Arch + ": AES-GCM in software (missing " + h.Missing + "; found " + h.Found + ")"
	}
}

// Hidden reports whether the machine has AES instructions that this process
// does not use: cpuinfo, the content of Linux's /proc/cpuinfo, lists them, but
// detection did not find them. A virtual machine that hides the flag or
// GODEBUG=cpu.aes=off does that.
func (h Hardware) Hidden(cpuinfo []byte) bool {
	if h.AES {
		return false
	}
	for line := range bytes.Lines(cpuinfo) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		switch string(bytes.TrimSpace(key)) {
		case "flags", "Features": // x86 and arm64 name the line differently
			for word := range bytes.FieldsSeq(value) {
				if string(word) == "aes" {
					return true
				}
			}
		}
	}
	return false
}
