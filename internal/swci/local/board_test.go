package local_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/local"
)

func TestBoardOnTerminal(t *testing.T) {
	var got bytes.Buffer
	b := local.NewBoard(local.Host{Stderr: &got, TTY: true, Width: func() int { return 24 }})
	b.Set([]local.Status{{Peer: "a", Text: "a 1"}, {Peer: "b", Text: "b, a line that is too long to stay whole"}})
	b.Log("said\x1b[31m so\a")
	b.Set([]local.Status{{Peer: "a", Text: "a 2"}})
	b.Close()
	b.Log("end")
	want := "a 1\nb, a line that is too l\n" +
		"\x1b[2A\x1b[Jsaid so\na 1\nb, a line that is too l\n" +
		"\x1b[2A\x1b[Ja 2\n" +
		"end\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
}

// TestBoardHead: the line above the peers' is whole, so that it can be copied, and what is drawn anew takes all its rows off.
func TestBoardHead(t *testing.T) {
	var got bytes.Buffer
	b := local.NewBoard(local.Host{Stderr: &got, TTY: true, Width: func() int { return 24 }})
	b.Head("http://127.0.0.1:30309/?token=a")
	b.Set([]local.Status{{Peer: "a", Text: "a 1"}})
	b.Head("http://127.0.0.1:30309/")
	b.Log("said so")
	b.Close()
	b.Log("end")
	want := "http://127.0.0.1:30309/?token=a\n" +
		"\x1b[2A\x1b[Jhttp://127.0.0.1:30309/?token=a\na 1\n" +
		"\x1b[3A\x1b[Jhttp://127.0.0.1:30309/\na 1\n" +
		"\x1b[2A\x1b[Jsaid so\nhttp://127.0.0.1:30309/\na 1\n" +
		"end\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("screen (-want +got):\n%s", diff)
	}
}

func TestBoardElsewhere(t *testing.T) {
	var got bytes.Buffer
	now := time.Unix(1, 0)
	b := local.NewBoard(local.Host{Stderr: &got, Now: func() time.Time { return now }})
	for _, step := range []struct {
		after time.Duration
		key   string
		news  bool
	}{
		{0, "1", false},
		{0, "1", false},
		{0, "", false},
		{time.Second, "2", false}, // too soon
		{time.Second, "3", false},
		{time.Second, "4 over", true}, // at once
		{time.Hour, "4 over", true},   // nothing new
		{0, "5", false},
		{30 * time.Second, "6", false}, // a long run's lines are rare
		{30 * time.Second, "7", false},
	} {
		now = now.Add(step.after)
		b.Set([]local.Status{{Peer: "a", Key: step.key, News: step.news, Text: "a at " + step.key}})
	}
	b.Log("said\tso")
	b.Head("http://127.0.0.1:30309/")
	b.Set(nil)
	if diff := cmp.Diff("a at 1\na at 3\na at 4 over\na at 5\na at 7\nsaid\tso\nhttp://127.0.0.1:30309/\n", got.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
