package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/text"
)

// Program says which program runs, for the ledger: the digest of its file as it is now, and the image of its container as it was named. It
// is empty for one that is started by hand, of which nothing is known. A file that can't be read is named without a digest.
func (r *Runner) Program() string {
	if r.how == nil {
		return ""
	}
	var said []string
	image := ""
	if r.containers != nil {
		image = r.containers.spec.Image
	}
	if name := r.cfg.Program; name != "" && name != image {
		said = append(said, name+digestOf(r.cfg.ModelDir, name))
	}
	if image != "" {
		said = append(said, "image "+image)
	}
	return text.Clip(text.Printable(strings.Join(said, ", "), '?'), maxIsolation)
}

// digestOf is " sha256:HEX" of a program in a directory; empty if there is no such file.
func digestOf(dir, program string) string {
	if !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	f, err := os.Open(program)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return fmt.Sprintf(" sha256:%s", hex.EncodeToString(h.Sum(nil)))
}
