package build

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/swarmd/swarmd/internal/work/volume"
)

// Bounds of what is there during a build.
var contextLimits = limits{entries: 1 << 17, bytes: 8 << 30}

// pack writes what an engine builds from: the files of a volume, as the engine packs it, with the steps. Neither the file with the steps nor
// the one that says so is there when the steps are carried out.
func pack(to io.Writer, files io.Reader, name, steps string, l limits) error {
	w := tar.NewWriter(to)
	for _, own := range []struct{ name, text string }{{".dockerignore", ".dockerignore\n" + ownFile + "\n"}, {ownFile, steps}} {
		if err := w.WriteHeader(&tar.Header{Name: own.name, Mode: 0o600, Size: int64(len(own.text)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.WriteString(w, own.text); err != nil {
			return err
		}
	}
	if name != "" {
		if err := copyFiles(w, tar.NewReader(files), l); err != nil {
			return fmt.Errorf("BuildContext %.200s: %w", name, err)
		}
	}
	return w.Close()
}

// limits are how much of a volume is taken.
type limits struct {
	entries int
	bytes   int64
}

// copyFiles copies what is in a volume. What is no file, directory or link in it is refused.
func copyFiles(w *tar.Writer, from *tar.Reader, l limits) error {
	most := l
	for {
		h, err := from.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the volume's files: %w", err)
		}
		inside, ok := volume.Inside(h.Name)
		switch {
		case !ok:
			return fmt.Errorf("the engine shows %.200q, which is not in it", h.Name)
		case inside == "." || inside == ".dockerignore" || inside == ownFile:
			continue
		}
		if l.entries, l.bytes = l.entries-1, l.bytes-h.Size; l.entries < 0 || l.bytes < 0 || h.Size < 0 {
			return fmt.Errorf("it has more than %d files, or more than %d bytes: take out what the build does not need", most.entries, most.bytes)
		}
		if h.Name = inside; h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if err := staysIn(h); err != nil {
			return err
		}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("%.200q can't be taken: %w", inside, err)
		}
		if _, err := io.Copy(w, from); err != nil {
			return fmt.Errorf("read the volume's files: %w", err)
		}
	}
}

// staysIn refuses what leads out of a volume.
func staysIn(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir:
		return nil
	case tar.TypeLink:
		inside, ok := volume.Inside(h.Linkname)
		if !ok {
			return fmt.Errorf("%.200q is a link to %.200q, out of it: remove it", h.Name, h.Linkname)
		}
		h.Linkname = inside
		return nil
	case tar.TypeSymlink:
		to := path.Join(path.Dir(h.Name), h.Linkname)
		if path.IsAbs(h.Linkname) || to == ".." || strings.HasPrefix(to, "../") {
			return fmt.Errorf("%.200q is a link to %.200q, out of it: remove it", h.Name, h.Linkname)
		}
		return nil
	}
	return fmt.Errorf("%.200q is no file, directory or link: remove it", h.Name)
}
