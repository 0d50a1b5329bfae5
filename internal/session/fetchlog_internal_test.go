package session

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/trust"
)

// TestAFetchThatWaitsForRegistrations: that nobody's registration has been checked is said when it lasts, once; what else is wrong at once.
func TestAFetchThatWaitsForRegistrations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l fetchLog
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		said := func(err error, want int) {
			t.Helper()
			l.note(log, err)
			if got := strings.Count(out.String(), "level=WARN"); got != want {
				t.Errorf("%d warnings, want %d: %s", got, want, out.String())
			}
		}
		unjudged, refused := fmt.Errorf("%w: sl-0: %w", errUnjudged, trust.ErrUnknown), errors.New("from sl-0: it is gone")
		said(unjudged, 0)
		l = fetchLog{}      // the model was had
		time.Sleep(judging) // virtual time
		said(unjudged, 0)
		time.Sleep(judging - 1)
		said(unjudged, 0)
		said(refused, 1)
		said(refused, 1)
		said(unjudged, 1) // anew
		time.Sleep(judging)
		said(unjudged, 2)
		said(unjudged, 2)
	})
}

// TestWhomAFetchWaitsFor: it waits quietly only if nobody could be asked, and nothing but a check is missing.
func TestWhomAFetchWaitsFor(t *testing.T) {
	unknown, notShown := fmt.Errorf("sl-0: %w", trust.ErrUnknown), fmt.Errorf("sl-1: %w", trust.ErrNotShown)
	for _, x := range []struct {
		name     string
		unjudged []error
		quiet    bool
	}{
		{"nobody has been checked", []error{unknown, unknown}, true},
		{"an SN does not show one", []error{unknown, notShown}, false},
		{"there is nobody", nil, false},
	} {
		inv := &inventory{s: &session{}}
		_, err := inv.fetch(t.Context(), nil, x.unjudged, round.Ref{}, nil)
		if err == nil || errors.Is(err, errUnjudged) != x.quiet {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}
