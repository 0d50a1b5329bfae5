package build_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/work/build"
)

// archive packs headers as an engine does; each file has as many bytes as it says.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		_, _ = io.CopyN(w, strings.NewReader(strings.Repeat("x", int(h.Size))), h.Size) // into memory
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// entries lists what was packed.
func entries(t testing.TB, packed []byte) (all []string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(packed))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(fmt.Sprint(h.Name, " ", h.Linkname)))
	}
}

func TestFilesOfAVolume(t *testing.T) {
	in := archive(t,
		tar.Header{Name: "volume/", Typeflag: tar.TypeDir}, tar.Header{Name: "volume/d/", Typeflag: tar.TypeDir}, tar.Header{Name: "volume/d/f", Typeflag: tar.TypeReg, Size: 3},
		tar.Header{Name: "volume/d/s", Typeflag: tar.TypeSymlink, Linkname: "../d/f"}, tar.Header{Name: "volume/h", Typeflag: tar.TypeLink, Linkname: "volume/d/f"},
		tar.Header{Name: "volume/.dockerignore", Typeflag: tar.TypeReg}, tar.Header{Name: "volume/.swarmd-build", Typeflag: tar.TypeReg})
	var out bytes.Buffer
	if err := build.Pack(&out, bytes.NewReader(in), "v", "FROM a\n"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".dockerignore", ".swarmd-build", "d/", "d/f", "d/s ../d/f", "h d/f"}, entries(t, out.Bytes())); d != "" {
		t.Error(d)
	}
}

func TestWhatIsNotTakenOfAVolume(t *testing.T) {
	for want, h := range map[string]tar.Header{
		`"s" is a link to "/etc/passwd", out of it: remove it`: {Name: "volume/s", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		`"d/s" is a link to "../../x", out of it: remove it`:   {Name: "volume/d/s", Typeflag: tar.TypeSymlink, Linkname: "../../x"},
		`"h" is a link to "etc/passwd", out of it`:             {Name: "volume/h", Typeflag: tar.TypeLink, Linkname: "etc/passwd"},
		`"p" is no file, directory or link`:                    {Name: "volume/p", Typeflag: tar.TypeFifo},
		`"b" is no file, directory or link`:                    {Name: "volume/b", Typeflag: tar.TypeBlock},
		`"volume/../x", which is not in it`:                    {Name: "volume/../x", Typeflag: tar.TypeReg},
		`"volumes/x", which is not in it`:                      {Name: "volumes/x", Typeflag: tar.TypeReg},
	} {
		err := build.Pack(io.Discard, bytes.NewReader(archive(t, h)), "v", "FROM a\n")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "BuildContext v: ") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	many := make([]tar.Header, 17)
	for i := range many {
		many[i] = tar.Header{Name: fmt.Sprint("volume/", i), Typeflag: tar.TypeReg}
	}
	for name, h := range map[string][]tar.Header{"many": many, "large": {{Name: "volume/a", Typeflag: tar.TypeReg, Size: 1<<16 + 1}}} {
		if err := build.Pack(io.Discard, bytes.NewReader(archive(t, h...)), "v", ""); err == nil || !strings.Contains(err.Error(), "more than 16 files, or more than 65536 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzPack holds that nothing leads out of what is packed.
func FuzzPack(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "volume/a", Typeflag: tar.TypeReg, Size: 3}, tar.Header{Name: "volume/s", Typeflag: tar.TypeSymlink, Linkname: "a"}))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if err := build.Pack(&out, bytes.NewReader(in), "v", "FROM a\n"); err != nil {
			return
		}
		for _, e := range entries(t, out.Bytes()) {
			name, link, _ := strings.Cut(e, " ")
			if path.IsAbs(name) || strings.HasPrefix(path.Clean(name), "..") && path.Clean(name)[2:] == "" || strings.HasPrefix(path.Clean(name), "../") || path.IsAbs(link) {
				t.Errorf("%q leads out", e)
			}
		}
	})
}
