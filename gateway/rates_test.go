package gateway

import "testing"

// TestAllowance: two seconds' worth at once, then the rate, and never more after a pause.
func TestAllowance(t *testing.T) {
	for _, rate := range []int{1, 7, 50, 1_000_000} {
		var p allowance
		take := func(now int64) (n int) {
			for p.allows(now, rate) {
				n++
			}
			return n
		}
		if n := take(1000); n != 2*rate {
			t.Errorf("rate %d: %d at once", rate, n)
		}
		taken := 0
		for now := int64(1001); now <= 11_000; now++ {
			taken += take(now)
		}
		if taken != 10*rate {
			t.Errorf("rate %d: %d in 10 s", rate, taken)
		}
		if n := take(1_000_000); n != 2*rate {
			t.Errorf("rate %d: %d after a pause", rate, n)
		}
		if n := take(999_000); n != 0 {
			t.Errorf("rate %d: %d when the clock goes back", rate, n)
		}
	}
	var p allowance
	for range 100_000 {
		if !p.allows(1, 0) {
			t.Fatal("0 is any number")
		}
	}
}
