package runner

import (
	"errors"
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/internal/session"
)

// TestLostFinalModelHasItsOwnEnd: a supervisor must be able to tell it, and a person reads one line.
func TestLostFinalModelHasItsOwnEnd(t *testing.T) {
	gone := &session.Error{Code: session.CodeModelLost, Message: "the final model is held by nobody", Help: "train again"}
	for _, tt := range []struct {
		why  error
		lost bool
		line string
	}{
		{gone, true, "the final model is held by nobody: train again"},
		{fmt.Errorf("sync: %w", gone), true, "sync: the final model is held by nobody: train again"},
		{&session.Error{Code: "RESET", Message: "reset"}, false, "reset"},
		{errors.New("no space"), false, "no space"},
	} {
		if isModelLost(tt.why) != tt.lost || withRemedy(tt.why).Error() != tt.line {
			t.Errorf("%v: lost %v, %q", tt.why, isModelLost(tt.why), withRemedy(tt.why))
		}
	}
}
