package detached_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/work/detached"
)

// TestPrinted holds which lines of a file are handed out, and that one that is followed ends when it is over.
func TestPrinted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "0.log")
	write := func(text string) {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
	never := func() bool { return false }
	var got []string
	emit := func(line string) error {
		got = append(got, line)
		return nil
	}
	if err := detached.Printed(t.Context(), file, 3, false, never, emit); err != nil || len(got) > 0 {
		t.Errorf("of none: %q, %v", got, err)
	}
	write("one\ntwo\n\nfour\nfi")
	for tail, want := range map[int]string{0: "", 1: "fi", 2: "four fi", 4: "two  four fi", 100: "one two  four fi"} {
		got = nil
		if err := detached.Printed(t.Context(), file, tail, false, never, emit); err != nil || strings.Join(got, " ") != want {
			t.Errorf("the last %d: %q, %v", tail, got, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		time.AfterFunc(time.Second, func() { write("ve\nsix\n") })
		time.AfterFunc(2*time.Second, func() {
			write("seven")
			over.Store(true)
		})
		got = nil
		if err := detached.Printed(t.Context(), file, 1, true, over.Load, emit); err != nil || !slices.Equal(got, []string{"five", "six", "seven"}) {
			t.Errorf("followed: %q, %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := detached.Printed(ctx, file, 0, true, never, emit); err != nil {
			t.Error(err)
		}
	})
	write("\n" + strings.Repeat(strings.Repeat("x", 99)+"\n", 20_000))
	got = nil
	if err := detached.Printed(t.Context(), file, 100_000, false, never, emit); err != nil || len(got) < 10_000 || len(got) > 1<<20/100+1 {
		t.Errorf("of much: %d lines, %v", len(got), err)
	}
}

// TestAnOutputThatBeginsAnew holds that nothing is missed of one whose file is moved aside and made anew, and that its last lines are those of both.
func TestAnOutputThatBeginsAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "0.log")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	turn := func() {
		if err := os.Rename(file, detached.Before(file)); err != nil {
			t.Error(err)
		}
	}
	put("one\ntwo\nth")
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		time.AfterFunc(time.Second, turn)
		time.AfterFunc(2*time.Second, func() { put("ree\nfour\n") })
		time.AfterFunc(3*time.Second, func() {
			turn()
			put("five\n")
			over.Store(true)
		})
		var got []string
		if err := detached.Printed(t.Context(), file, 2, true, over.Load, func(line string) error {
			got = append(got, line)
			return nil
		}); err != nil || strings.Join(got, " ") != "two three four five" {
			t.Errorf("followed: %q, %v", got, err)
		}
	})
	for tail, want := range map[int]string{0: "", 1: "five", 2: "four five", 3: "ree four five", 9: "ree four five"} {
		var got []string
		if err := detached.Printed(t.Context(), file, tail, false, nil, func(line string) error {
			got = append(got, line)
			return nil
		}); err != nil || strings.Join(got, " ") != want {
			t.Errorf("the last %d: %q, %v", tail, got, err)
		}
	}
	if got := strings.Join(detached.LastLines(file), " "); got != "ree four five" {
		t.Errorf("the last lines are %q", got)
	}
}

// TestAnOutputThatIsFasterThanItsReader: who follows one that begins anew several times meanwhile is told so, and handed its end, also if it was
// removed by then.
func TestAnOutputThatIsFasterThanItsReader(t *testing.T) {
	file := filepath.Join(t.TempDir(), "0.log")
	put := func(text string) {
		if err := errors.Join(os.RemoveAll(detached.Before(file)), os.Rename(file, detached.Before(file))); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	put("one\ntwo\n")
	var got []string
	over := false
	if err := detached.Printed(t.Context(), file, 9, true, func() bool { return over }, func(line string) error {
		switch got = append(got, line); line {
		case "one":
			put("three\n")
			put("four\n")
		case detached.LeftOut:
			over = true
			return os.RemoveAll(filepath.Dir(file))
		}
		return nil
	}); err != nil || !slices.Equal(got, []string{"one", "two", detached.LeftOut, "four"}) {
		t.Errorf("%q, %v", got, err)
	}
}
