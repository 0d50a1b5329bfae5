package version_test

import (
	"runtime"
	"testing"

	"github.com/swarmd/swarmd/internal/version"
)

// TestRead reads what is known of a binary that is of no tag: this test's.
func TestRead(t *testing.T) {
	want := version.Info{Version: "devel", Commit: "unknown", Go: runtime.Version()}
	if got := version.Read(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestString names version and commit.
func TestString(t *testing.T) {
	if got := (version.Info{Version: "v1.2.3", Commit: "0123456789ab"}).String(); got != "v1.2.3 (0123456789ab)" {
		t.Errorf("got %q", got)
	}
}
