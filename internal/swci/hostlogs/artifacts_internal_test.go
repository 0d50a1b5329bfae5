package hostlogs

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// TestHostileArchives: what has links, or is none, is refused before anything is unpacked.
func TestHostileArchives(t *testing.T) {
	for name, tt := range map[string]struct {
		header tar.Header
		want   string
	}{
		"a file":      {tar.Header{Typeflag: tar.TypeReg, Name: "node/0/f"}, ""},
		"a link":      {tar.Header{Typeflag: tar.TypeSymlink, Name: "node/0/f", Linkname: "/etc"}, "is a link"},
		"a hard link": {tar.Header{Typeflag: tar.TypeLink, Name: "node/0/f", Linkname: "node/0/g"}, "is a link"},
		"a device":    {tar.Header{Typeflag: tar.TypeBlock, Name: "node/0/f"}, "is a link, or no file"},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "x.tar"))
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(f)
		if err := errors.Join(w.WriteHeader(&tt.header), w.Close()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := filesIn(f); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhichStartIsAskedFor: the request signs the start that was found, and the host's own members in it.
func TestWhichStartIsAskedFor(t *testing.T) {
	a := &swarmv1.Assignment{Id: "7", Epoch: 3, Members: []*swarmv1.AssignmentMember{{Index: 0, Node: "h"}, {Index: 1, Node: "g"}, {Index: 2, Node: "h"}}}
	all := on(a, map[string]*swarmv1.Node{})
	if len(all) != 2 {
		t.Fatal(all)
	}
	want := &swarmv1.LogPart{Assignment: "7", Artifacts: true, Epoch: 3, Members: []uint32{0, 2}}
	if got := leftBy(all[0]); !proto.Equal(got, want) {
		t.Error(got)
	}
	if got := leftBy(Log{Node: unlisted("h"), Assignment: "7"}); !proto.Equal(got, &swarmv1.LogPart{Assignment: "7", Artifacts: true}) {
		t.Error(got)
	}
}

// TestWhatCameIsWhole holds that pieces are held to the digest at their end, which a line of a member's is not.
func TestWhatCameIsWhole(t *testing.T) {
	sum := sha256.Sum256([]byte("onetwo"))
	digest := "sha256 " + hex.EncodeToString(sum[:])
	for name, tt := range map[string]struct {
		lines []*swarmv1.LogLine
		whole bool
	}{
		"all":          {[]*swarmv1.LogLine{{Data: []byte("one")}, {From: "node/0", Text: "sha256 00"}, {Data: []byte("two")}, {Text: digest}}, true},
		"cut off":      {[]*swarmv1.LogLine{{Data: []byte("one")}, {Text: digest}}, false},
		"without":      {[]*swarmv1.LogLine{{Data: []byte("one")}, {Data: []byte("two")}}, false},
		"a member's":   {[]*swarmv1.LogLine{{Data: []byte("one")}, {Data: []byte("two")}, {From: "node/0", Text: digest}}, false},
		"nothing came": {nil, false},
	} {
		var b bytes.Buffer
		r := &receiver{to: &b, hash: sha256.New()}
		if err := r.take(tt.lines); err != nil {
			t.Error(err)
		}
		if err := r.whole(); (err == nil) != tt.whole {
			t.Errorf("%s: %v", name, err)
		}
	}
}
