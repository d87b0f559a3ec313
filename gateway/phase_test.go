package gateway

import "testing"

func TestEveryPhaseCanEndAndNoneGoesBack(t *testing.T) {
	for from := phaseNew; from <= phaseClosed; from++ {
		if from != phaseClosed && !from.mayMove(phaseClosed) {
			t.Errorf("phase %d cannot end", from)
		}
		for to := phaseNew; to <= from; to++ {
			if from.mayMove(to) {
				t.Errorf("phase %d goes back to %d", from, to)
			}
		}
	}
}
