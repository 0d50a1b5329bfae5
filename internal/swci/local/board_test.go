package local_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/local"
)

func TestBoardOnTerminal(t *testing.T) {
	var got bytes.Buffer
	b := local.NewBoard(&got, true, func() int { return 24 })
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

func TestBoardElsewhere(t *testing.T) {
	var got bytes.Buffer
	b := local.NewBoard(&got, false, nil)
	for _, key := range []string{"1", "1", "", "2"} {
		b.Set([]local.Status{{Peer: "a", Key: key, Text: "a at " + key}})
	}
	b.Log("said")
	if diff := cmp.Diff("a at 1\na at 2\nsaid\n", got.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
