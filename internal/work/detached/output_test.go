package detached_test

import (
	"context"
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
