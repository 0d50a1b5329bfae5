package hostpaths

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// hangs is a host on which looks at some places last until the channel is closed.
func hangs(until <-chan struct{}, places ...string) *Here {
	h := NewHere()
	dir := fstest.MapFS{"d": {Mode: fs.ModeDir}}
	h.see = func(root string, before func(string) error) looker {
		return looker{root: root, before: before, readlink: nil, lstat: func(name string) (fs.FileInfo, error) {
			for _, p := range places {
				if name == p {
					<-until
				}
			}
			return dir.Stat("d")
		}}
	}
	return h
}

// goOn is how many looks go on, and how many of them are not stuck.
func (h *Here) goOn() (all, slots int) {
	h.looks.mu.Lock()
	defer h.looks.mu.Unlock()
	return len(h.looks.all), len(h.looks.slots)
}

// TestAPathThatDoesNotAnswer: it is an error within 10 seconds, at once the next time, and in nobody's way. When the place answers again it is
// looked at again.
func TestAPathThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		h := hangs(until, "/mnt/dead")
		began, errs := time.Now(), make(chan error)
		for range 50 {
			go func() {
				_, err := h.Resolve(t.Context(), []string{"/a", "/mnt/dead/x"})
				errs <- err
			}()
		}
		for range 50 {
			if err := <-errs; err == nil || !strings.Contains(err.Error(), "no answer within 10s") && !strings.Contains(err.Error(), "stuck there") {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != lookTime {
			t.Errorf("it took %v", took)
		}
		for _, name := range []string{"/mnt/dead", "/mnt/dead/y"} {
			if _, err := h.Resolve(t.Context(), []string{name}); err == nil || !strings.Contains(err.Error(), "stuck there") {
				t.Errorf("%s again: %v", name, err)
			}
		}
		if got, err := h.Resolve(t.Context(), []string{"/mnt/live"}); err != nil || got["/mnt/live"].At != "/mnt/live" {
			t.Errorf("another path: %v, %v", got, err)
		}
		synctest.Wait() // some end just then
		if all, slots := h.goOn(); time.Since(began) != lookTime || all != maxLooks || slots != 0 {
			t.Errorf("it took %v, and %d looks go on, %d of them not stuck", time.Since(began), all, slots)
		}
		close(until)
		synctest.Wait()
		if got, err := h.Resolve(t.Context(), []string{"/mnt/dead/x"}); err != nil || got["/mnt/dead/x"].At != "/mnt/dead/x" {
			t.Errorf("once it answers: %v, %v", got, err)
		}
		if all, slots := h.goOn(); all != 0 || slots != 0 {
			t.Errorf("%d looks are left, with %d slots", all, slots)
		}
	})
}

// TestLooksThatAreStuckAreBounded: however many places do not answer.
func TestLooksThatAreStuckAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until, places := make(chan struct{}), []string{}
		for i := range 100 {
			places = append(places, fmt.Sprintf("/mnt%d", i))
		}
		h := hangs(until, places...)
		for i, p := range places {
			_, err := h.Resolve(t.Context(), []string{p})
			if want := map[bool]string{true: "no answer", false: "16 looks before are stuck"}[i < maxStuck]; err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%d: %v, want %q", i, err, want)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("this host stops"))
		if _, err := h.Resolve(ctx, []string{"/"}); err == nil {
			t.Error("a host that stops looks")
		}
		close(until)
		synctest.Wait()
		if all, slots := h.goOn(); all != 0 || slots != 0 {
			t.Errorf("%d looks are left, with %d slots", all, slots)
		}
	})
}

// TestErrorsThatPass: only what is so for good is an answer.
func TestErrorsThatPass(t *testing.T) {
	for err, passes := range map[error]bool{
		unix.ENOENT: false, unix.EACCES: false, unix.ENOTDIR: false, unix.ENAMETOOLONG: false, unix.EIO: true, unix.ESTALE: true, unix.ETIMEDOUT: true, unix.EHOSTDOWN: true, unix.EMFILE: true,
	} {
		l := looker{root: "/", before: func(string) error { return nil }, lstat: func(string) (fs.FileInfo, error) { return nil, &fs.PathError{Op: "lstat", Path: "/a", Err: err} }}
		lead, got := l.walk("/a/b")
		if (got != nil) != passes || !passes && (lead.At != "/a" || lead.Why == "") {
			t.Errorf("%v: %+v, %v", err, lead, got)
		}
	}
}
