package logs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/internal/logs"
)

func lines(t *testing.T, r *logs.Ring, tail int) (all []string) {
	t.Helper()
	if err := r.Log(t.Context(), logs.Wanted{Tail: tail}, func(l logs.Line) error {
		all = append(all, l.Text)
		return nil
	}); err != nil {
		t.Error(err)
	}
	return all
}

// TestARingKeepsTheLastLines holds that lines are whole, whatever the pieces in which they are written, and that old ones go.
func TestARingKeepsTheLastLines(t *testing.T) {
	r := logs.NewRing(20)
	for _, piece := range []string{"on", "e\ntwo\n", "", "thr", "ee\n\nfive\npart"} {
		if n, err := r.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := lines(t, r, 100); !slices.Equal(got, []string{"one", "two", "three", "", "five"}) {
		t.Errorf("%q", got)
	}
	if got := lines(t, r, 2); !slices.Equal(got, []string{"", "five"}) {
		t.Errorf("%q", got)
	}
	if got := lines(t, r, 0); len(got) > 0 {
		t.Errorf("%q", got)
	}
	_, _ = r.Write([]byte("ly\n"))
	if got := lines(t, r, 100); !slices.Equal(got, []string{"three", "", "five", "partly"}) {
		t.Errorf("%q", got)
	}
	_, _ = r.Write([]byte(strings.Repeat("x", 20_000) + "\n"))
	if got := lines(t, r, 100); len(got) != 1 || len(got[0]) > 8<<10 {
		t.Errorf("%d lines", len(got))
	}
}

// TestARingIsFollowed holds that what comes is handed out, and that a reader that is too slow hears what it has missed.
func TestARingIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := logs.NewRing(30)
		_, _ = r.Write([]byte("old\nlast\n"))
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		slow, done := make(chan struct{}), make(chan error, 1)
		go func() {
			done <- r.Log(ctx, logs.Wanted{Tail: 1, Follow: true}, func(l logs.Line) error {
				if got = append(got, l.Text); l.Text == "slow" {
					<-slow
				}
				return nil
			})
		}()
		synctest.Wait()
		_, _ = r.Write([]byte("slow\n"))
		synctest.Wait()
		for i := range 10 {
			_, _ = fmt.Fprintf(r, "line %d\n", i)
		}
		close(slow)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []string{"last", "slow", "… 6 lines were left out: they came faster than they could be sent", "line 6", "line 7", "line 8", "line 9"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	failed := errors.New("the operator is gone")
	r := logs.NewRing(30)
	_, _ = r.Write([]byte("x\n"))
	if err := r.Log(t.Context(), logs.Wanted{Tail: 1, Follow: true}, func(logs.Line) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}
