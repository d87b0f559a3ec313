package deployment

import (
	"os/exec"
	"strings"
	"testing"
)

// accountsOf has the script of deploy/several judge what one client was told.
func accountsOf(t *testing.T, lines ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command("awk", "-f", "deploy/several/accounts.awk", write(t, "client.out", strings.Join(lines, "\n")+"\n"))
	cmd.Dir = root
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// The rehearsal's verdict on clients finds what is missing, doubled or in another
// order, and only that.
func TestAccountsOfTheRehearsal(t *testing.T) {
	told := []string{
		`{"topic":"a","seq":7,"epoch":1,"skipped":0,"time_us":1,"payload":"{\"seq\":99,\"event\":\"gap\"}"}`,
		`{"topic":"a","seq":8,"epoch":1,"skipped":0,"time_us":2,"payload":"x"}`,
		`{"topic":"b","seq":1,"epoch":2,"skipped":0,"time_us":2,"payload":"x"}`,
		`{"topic":"a","seq":11,"epoch":1,"skipped":2,"merged":2,"time_us":3,"payload":"x"}`,
		`{"event":"gap","topic":"a","epoch":1,"from":12,"to":13,"cause":"slow"}`,
		`{"topic":"a","seq":14,"epoch":1,"skipped":2,"time_us":3,"payload":"x"}`,
		`{"event":"disconnected","code":1012,"text":"x","retry_ms":3}`,
		`{"event":"connected","resumed":true}`,
		`{"event":"reset","topic":"a","epoch":5,"next_seq":3,"cause":"unspecified"}`,
		`{"topic":"a","seq":3,"epoch":5,"skipped":0,"time_us":3,"payload":"x"}`,
		`{"topic":"b","seq":2,"epoch":2,"skipped":0,"time_us":2,"payload":"x"}`,
	}
	out, err := accountsOf(t, told...)
	if err != nil || !strings.Contains(out, "7 ticks received, 2 merged into newer ones, 2 told as lost; topics began anew 1 times") ||
		!strings.Contains(out, "1 connections ended, 1 returns, 1 of them with a ticket") {
		t.Errorf("%v: %s", err, out)
	}
	for _, left := range []int{1, 3, 4, 7, 8} {
		if out, err := accountsOf(t, append(append([]string{}, told[:left]...), told[left+1:]...)...); err == nil {
			t.Errorf("without line %d: %s", left+1, out)
		}
	}
	for _, twice := range []int{1, 9, 10} {
		if out, err := accountsOf(t, append(append([]string{}, told[:twice+1]...), told[twice:]...)...); err == nil {
			t.Errorf("with line %d twice: %s", twice+1, out)
		}
	}
}
