// Package jobs is what swarmctl does with jobs and their files, beside the rows of its commands.
package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/adsfile"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

// Load reads a job file, or a file of Oracle's as one, and the folder of its source, which the file names from where it is itself. image is that which
// is said in the place of the file's, if any.
func Load(path, image string) (*jobfile.Job, Imported, error) {
	raw, err := tasks.Contents(path, jobfile.MaxBody)
	if err != nil {
		return nil, Imported{}, err
	}
	if adsfile.Is(raw) {
		return imported(path, image, raw)
	}
	j, err := jobfile.Read(path, raw)
	if err == nil {
		err = withSource(path, j)
	}
	if err != nil {
		return nil, Imported{}, err
	}
	return j, Imported{Notes: []Note{}}, nil
}

// withSource reads the folder of a job's source into it.
func withSource(path string, j *jobfile.Job) (err error) {
	if j.Beside.SL != "" {
		return exit.New(exit.Usage, "start the ranks of an SL with it: swarmd run-sl --ranks N", "%s: beside is written by SLs, and hosts take such jobs of an SL alone", text.Line(path))
	}
	if j.Folder == "" {
		return nil
	}
	if j.Source, err = packed(folderOf(path, j)); err != nil {
		return fmt.Errorf("%s: source %s: %w", text.Line(path), text.Line(j.Folder), err)
	}
	j.Folder = ""
	return nil
}

// folderOf is the folder of a job's source.
func folderOf(path string, j *jobfile.Job) string {
	if filepath.IsAbs(j.Folder) {
		return j.Folder
	}
	return filepath.Join(filepath.Dir(path), j.Folder)
}

// packed reads a folder, out of which nothing leads.
func packed(folder string) ([]jobfile.File, error) {
	root, err := os.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.New(exit.NotFound, "", "there is no such folder")
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return jobfile.Pack(root.FS())
}
