package container

import (
	"errors"
	"testing"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// TestCheckThatMeetsAFailingEngine: a check passes if nothing but the engine has failed.
func TestCheckThatMeetsAFailingEngine(t *testing.T) {
	l := &Launcher{}
	for reason, want := range map[string]bool{reasonRestarted: true, reasonLost: true, reasonVanished: false, "": false} {
		err := l.broken(t.Context(), Spec{}, report{said: map[string]string{}}, launch.Exit{ExitCode: -1, Reason: reason})
		if err == nil || engine.OutOfReach(err) != want {
			t.Errorf("%q: %v", reason, err)
		}
	}
	away := problem("", "%w", engine.ErrSilent)
	if err := together(away, away); !engine.OutOfReach(err) {
		t.Error(err)
	}
	if err := together(away, errors.New("no such image"), away); engine.OutOfReach(err) {
		t.Error(err)
	}
}
