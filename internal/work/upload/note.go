package upload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

// sweepAfter is how old a file is that nobody will put in its place any more.
const sweepAfter = time.Minute

// Order is what is to be copied of a member.
type Order struct {
	Target string        // name, which the host's owner has a place for
	Under  string        // path there
	Every  time.Duration // between two copies
	// Serves says that the member serves the others of its job, and has failed if it ends before them. Of those that end at a time with it none may be
	// known to have ended yet, as the last copy is made: so its end is told later than any.
	Serves bool `json:",omitempty"`
}

// note is what is kept of it.
type note struct {
	Order

	Well   bool   `json:",omitempty"` // a copy was made
	Done   bool   `json:",omitempty"` // the last copy was made
	Left   int    `json:",omitempty"` // links and the like, which were left out of the last one that was begun
	Failed string `json:",omitempty"` // why it was given up, in words that tell nothing of the host
	Said   string `json:",omitempty"` // what rclone said last, which may
}

// write writes the note whole or not at all.
func (n note) write(file string) error {
	raw, err := json.Marshal(n)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err != nil {
		return err
	}
	return atomicfile.Replace(file, raw, 0o600)
}

func noteIn(file string) (n note, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return note{}, &damage{fmt.Errorf("read %s: %w", file, err)}
	}
	return n, nil
}

// failedFor is how long the note of a member is kept whose copies were given up.
const failedFor = 24 * time.Hour

// sweepFailed removes the notes in a folder of members whose copies were given up long ago, also of those whose notes are damaged. Nobody asks for them any
// more.
func sweepFailed(dir string, now time.Time) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, d := range entries {
		info, err := d.Info()
		if err != nil || now.Sub(info.ModTime()) < failedFor || filepath.Ext(d.Name()) != ".json" {
			continue
		}
		file := filepath.Join(dir, d.Name())
		n, err := noteIn(file)
		if _, damaged := errors.AsType[*damage](err); damaged || err == nil && n.Failed != "" {
			errs = append(errs, removed(file))
		}
	}
	return errors.Join(errs...)
}

// damage is why a note tells nothing, and never will.
type damage struct{ error }

// removed removes a file that may not be there.
func removed(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// placeAt is a path on a target.
func placeAt(target, under string) string {
	if strings.HasSuffix(target, ":") || strings.HasSuffix(target, "/") {
		return target + under
	}
	return target + "/" + under
}
