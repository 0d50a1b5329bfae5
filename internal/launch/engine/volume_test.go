package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

func TestParseVolume(t *testing.T) {
	for text, want := range map[string]engine.Volume{
		"/a:/b":          {Source: "/a", Target: "/b"},
		"./a:/b/../c/":   {Source: "./a", Target: "/c"},
		"vol:/b:ro":      {Source: "vol", Target: "/b", Mode: "ro", ReadOnly: true},
		"/a:/b:Z,ro":     {Source: "/a", Target: "/b", Mode: "Z,ro", ReadOnly: true},
		"/a:/b:rw":       {Source: "/a", Target: "/b", Mode: "rw"},
		"/a:/b:readonly": {Source: "/a", Target: "/b", Mode: "readonly", ReadOnly: true},
	} {
		got, err := engine.ParseVolume(text)
		if diff := cmp.Diff(got, want); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"":          "want HOST-PATH",
		"/a":        "want HOST-PATH",
		":/b":       "want HOST-PATH",
		"/a:":       "want HOST-PATH",
		"/a:/b:":    "want :ro",
		"/a:/b:ro:": "want HOST-PATH",
		"/a:b":      "b is no absolute path",
		"/a:/":      "below /",
		"/a:/b:rx":  "not :rx",
		"/a\x00:/b": "want HOST-PATH",
	} {
		if v, err := engine.ParseVolume(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want %q", text, v, err, want)
		}
	}
	for source, named := range map[string]bool{"vol": true, "my_vol-1": true, "a.b": false, "a/b": false, ".": false, "/a": false, "-v": false} {
		if got := (engine.Volume{Source: source}).Named(); got != named {
			t.Errorf("%s: a volume's name is %v", source, got)
		}
	}
}
