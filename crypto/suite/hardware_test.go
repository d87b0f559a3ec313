package suite

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// childVariable makes the test binary print what it detects and how long
// AES-GCM takes, instead of running tests.
const childVariable = "SEALCAST_TEST_HARDWARE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		fmt.Printf("%v %d\n", Detect().AES, fastestSeal())
		return
	}
	os.Exit(m.Run())
}

// fastestSeal is the least time of one AES-128-GCM seal of 16 KiB, in nanoseconds.
func fastestSeal() int64 {
	aead, err := AES128GCM.New(make([]byte, 16))
	if err != nil {
		panic(err)
	}
	nonce, buf := make([]byte, NonceSize), make([]byte, 16<<10, 16<<10+TagSize)
	best := time.Hour
	for range 50 {
		began := time.Now()
		aead.Seal(buf[:0], nonce, buf, nil)
		best = min(best, time.Since(began))
	}
	return best.Nanoseconds()
}

// TestGodebugSwitchesAESOff checks that detection and the standard library
// both obey GODEBUG=cpu.aes=off: the process then says it has no AES, and
// AES-GCM really is several times slower (some 40 times on amd64).
func TestGodebugSwitchesAESOff(t *testing.T) {
	usual, usualTime := detectInChild(t, "")
	off, offTime := detectInChild(t, "cpu.aes=off")
	if usual != Detect().AES {
		t.Errorf("a child detects %v, this process %v", usual, Detect().AES)
	}
	if off {
		t.Error("AES detected under GODEBUG=cpu.aes=off")
	}
	if usual && offTime < 3*usualTime {
		t.Errorf("sealing takes %d ns under cpu.aes=off and %d ns without: the standard library still uses AES instructions", offTime, usualTime)
	}
}

func detectInChild(t *testing.T, godebug string) (aes bool, nanoseconds int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", "GODEBUG="+godebug)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &aes, &nanoseconds); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return aes, nanoseconds
}

func TestHardwareSaysWhy(t *testing.T) {
	for _, test := range []struct {
		hardware Hardware
		want     string
	}{
		{Hardware{AES: true, Arch: "amd64", Found: "AES, PCLMULQDQ"}, "amd64: AES-GCM in hardware (AES, PCLMULQDQ)"},
		{Hardware{Arch: "arm64", Found: "PMULL", Missing: "AES"}, "arm64: AES-GCM in software (missing AES; found PMULL)"},
		{Hardware{Arch: "riscv64", Missing: "AES"}, "riscv64: AES-GCM in software (missing AES)"},
	} {
		if got := test.hardware.String(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	if h := Detect(); h.Arch == "" || h.AES != (h.Missing == "") {
		t.Errorf("detected %+v", h)
	}
}

func TestHidden(t *testing.T) {
	x86 := "processor\t: 0\nmodel name\t: aes machine\nflags\t\t: fpu vme aes sse4_1\n\n"
	arm := "processor\t: 0\nFeatures\t: fp asimd aes pmull\n"
	for _, test := range []struct {
		aes     bool
		cpuinfo string
		want    bool
	}{
		{false, x86, true},
		{false, arm, true},
		{true, x86, false},
		{false, strings.Replace(x86, " aes sse4_1", " vaes sse4_1", 1), false},
		{false, "", false},
	} {
		if got := (Hardware{AES: test.aes}).Hidden([]byte(test.cpuinfo)); got != test.want {
			t.Errorf("AES %v, %q: %v", test.aes, test.cpuinfo, got)
		}
	}
}
