package unpack_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/unpack"
)

func tarred(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(bytes.Repeat([]byte("x"), int(h.Size))) // into memory
	}
	_ = w.Close() // likewise
	return b.Bytes()
}

func zipped(t testing.TB, headers ...zip.FileHeader) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, h := range headers {
		f, err := w.CreateHeader(&h)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(h.Comment)) // into memory
	}
	_ = w.Close() // likewise
	return b.Bytes()
}

func gzipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data) // into memory
	_ = w.Close()        // likewise
	return b.Bytes()
}

// unpacked unpacks into dir/in, which lies in dir.
func unpacked(t testing.TB, data []byte, b *unpack.Budget) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(t.TempDir(), "archive")
	if err := errors.Join(os.WriteFile(file, data, 0o600), os.Mkdir(filepath.Join(dir, "root"), 0o700)); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return dir, unpack.Archive(t.Context(), root, "in", f, b)
}

// tree lists what is in a directory.
func tree(t testing.TB, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		to, _ := os.Readlink(p)
		all = append(all, strings.TrimSpace(fmt.Sprint(rel, " ", info.Mode(), " ", to)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func roomy() *unpack.Budget { return &unpack.Budget{Entries: 100, Bytes: 1 << 16} }

func TestArchives(t *testing.T) {
	packed := tarred(t, tar.Header{Name: "./d/", Typeflag: tar.TypeDir, Mode: 0o700}, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Size: 3, Mode: 0o4755}, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Size: 4, Mode: 0o600},
		tar.Header{Name: "d/s", Typeflag: tar.TypeSymlink, Linkname: "../d/f"}, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "d/f"}, tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o755})
	link, file, run := zip.FileHeader{Name: "d/s", Comment: "../d/f"}, zip.FileHeader{Name: "d/f", Comment: "text", Method: zip.Deflate}, zip.FileHeader{Name: "x"}
	link.SetMode(fs.ModeSymlink | 0o777)
	run.SetMode(0o755)
	want := []string{"in drwxr-xr-x", "in/d drwxr-xr-x", "in/d/f -rw-r--r--", "in/d/s Lrwxrwxrwx ../d/f", "in/h -rw-r--r--", "in/x -rwxr-xr-x"}
	for name, data := range map[string][]byte{"tar": packed, "tar.gz": gzipped(packed), "zip": zipped(t, zip.FileHeader{Name: "d/"}, file, link, zip.FileHeader{Name: "h"}, run)} {
		dir, err := unpacked(t, data, roomy())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want, tree(t, filepath.Join(dir, "root"))); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestWhatIsNotUnpacked(t *testing.T) {
	link := zip.FileHeader{Name: "s", Comment: "/etc"}
	link.SetMode(fs.ModeSymlink | 0o777)
	reg := func(name string, size int64) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Size: size}
	}
	many := make([]tar.Header, 101)
	for i := range many {
		many[i] = reg(fmt.Sprint(i), 0)
	}
	for _, tt := range []struct {
		data []byte
		want string
	}{
		{tarred(t, reg("../x", 0)), "leads out"},
		{tarred(t, reg("/x", 0)), "leads out"},
		{tarred(t, reg("a/../../x", 0)), "leads out"},
		{tarred(t, reg(strings.Repeat("a/", 600)+"a", 0)), "leads out"},
		{tarred(t, tar.Header{Name: "s", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), "out of the archive"},
		{tarred(t, tar.Header{Name: "d/s", Typeflag: tar.TypeSymlink, Linkname: "../../x"}), "out of the archive"},
		{tarred(t, tar.Header{Name: "s", Typeflag: tar.TypeSymlink, Linkname: "s2"}, tar.Header{Name: "s2", Typeflag: tar.TypeSymlink, Linkname: ".."}), "out of the archive"},
		{tarred(t, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../../x"}), "out of the archive"},
		{tarred(t, tar.Header{Name: "p", Typeflag: tar.TypeFifo}), "no file, directory or link"},
		{tarred(t, tar.Header{Name: "c", Typeflag: tar.TypeChar}), "no file, directory or link"},
		{tarred(t, reg("d/x", 0), reg("d", 0)), "directory not empty"},
		{tarred(t, many...), "more than is taken"},
		{tarred(t, reg("big", 1<<16+1)), "more than is taken"},
		{tarred(t, reg("big", 1<<15+1), tar.Header{Name: "again", Typeflag: tar.TypeLink, Linkname: "big"}), "more than is taken"},
		{gzipped(tarred(t, reg("a", 1<<15), reg("b", 1<<15+1))), "more than is taken"},
		{zipped(t, zip.FileHeader{Name: "../x"}), "leads out"},
		{zipped(t, link), "out of the archive"},
		{zipped(t, zip.FileHeader{Name: "bomb", Comment: strings.Repeat("\x00", 1<<15), Method: zip.Deflate}, zip.FileHeader{Name: "bomb2", Comment: strings.Repeat("\x00", 1<<15+1), Method: zip.Deflate}), "more than is taken"},
		{[]byte("\xfd7zXZ\x00"), "use tar, tar.gz, tar.bz2 or zip"},
		{gzipped([]byte("text")), "use tar, tar.gz, tar.bz2 or zip"},
		{[]byte("\x1f\x8b"), "bad gzip"},
		{[]byte("PK\x03\x04"), "bad zip"},
		{nil, "use tar, tar.gz, tar.bz2 or zip"},
	} {
		if _, err := unpacked(t, tt.data, roomy()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

// TestALinkIsNotFollowedOut: of two links each stays in the archive, and both together would not.
func TestALinkIsNotFollowedOut(t *testing.T) {
	data := tarred(t, tar.Header{Name: "a/b/", Typeflag: tar.TypeDir}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "a/b"},
		tar.Header{Name: "l/up", Typeflag: tar.TypeSymlink, Linkname: "../a"}, tar.Header{Name: "l/up/x", Typeflag: tar.TypeReg, Size: 1})
	dir, err := unpacked(t, data, roomy())
	if left := tree(t, dir); len(left) == 0 || slicesOutside(left) {
		t.Errorf("%v: %q", err, left)
	}
}

func slicesOutside(tree []string) bool {
	for _, e := range tree {
		if !strings.HasPrefix(e, "root") {
			return true
		}
	}
	return false
}

func TestUnpackingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, _ = f.Write(tarred(t, tar.Header{Name: "x", Typeflag: tar.TypeReg})) // seen below
	if err := unpack.Archive(ctx, root, ".", f, roomy()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// FuzzArchive holds that nothing is made outside the directory, and no more than may be.
func FuzzArchive(f *testing.F) {
	f.Add(tarred(f, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Size: 3}, tar.Header{Name: "d/s", Typeflag: tar.TypeSymlink, Linkname: "../d/f"}))
	f.Add(gzipped(tarred(f, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Size: 3})))
	f.Add(zipped(f, zip.FileHeader{Name: "d/f", Comment: "text"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir, _ := unpacked(t, data, &unpack.Budget{Entries: 10, Bytes: 1 << 12})
		total := int64(0)
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			rel, _ := filepath.Rel(dir, p)
			if err == nil && rel != "." && rel != "root" && !strings.HasPrefix(rel, "root/") {
				t.Errorf("%s is outside", rel)
			}
			if info, err := d.Info(); err == nil && d.Type().IsRegular() {
				total += info.Size()
			}
			return err
		})
		if err != nil || total > 10<<12 { // a link to a file is another name of it
			t.Errorf("%d bytes, %v", total, err)
		}
	})
}
