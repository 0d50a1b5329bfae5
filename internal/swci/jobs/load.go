// Package jobs is what swarmctl does with jobs and their files, beside the rows of its commands.
package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

// Load reads a job file and the folder of its source, which the file names from where it is itself.
func Load(path string) (*jobfile.Job, error) {
	raw, err := tasks.Contents(path, jobfile.MaxBody)
	if err != nil {
		return nil, err
	}
	j, err := jobfile.Read(path, raw)
	if err == nil && j.Beside.SL != "" {
		err = exit.New(exit.Usage, "start the ranks of an SL with it: swarmd run-sl --ranks N", "%s: beside is written by SLs, and hosts take such jobs of an SL alone", text.Line(path))
	}
	if err != nil || j.Folder == "" {
		return j, err
	}
	folder := j.Folder
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(filepath.Dir(path), folder)
	}
	if j.Source, err = packed(folder); err != nil {
		return nil, fmt.Errorf("%s: source %s: %w", text.Line(path), text.Line(j.Folder), err)
	}
	j.Folder = ""
	return j, nil
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
