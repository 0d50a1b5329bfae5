package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/swarmd/swarmd/internal/adsfile"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

// Imported is what a file of Oracle's became.
type Imported struct {
	From  string `json:"from" doc:"what the file is, as ADS, kind: distributed; empty: a job file"`
	Notes []Note `json:"notes" doc:"what of the file is ignored, or is another thing here"`
}

// Note is of a line of such a file.
type Note struct {
	Line int    `json:"line" doc:"in the file"`
	Text string `json:"text" doc:"what of it is ignored, and why, or what it became"`
}

// Lines are the notes as they are shown.
func (i Imported) Lines() (all []string) {
	for _, n := range i.Notes {
		all = append(all, fmt.Sprintf("line %d: %s", n.Line, n.Text))
	}
	return all
}

// imported reads a file of Oracle's as a job.
func imported(path, image string, raw []byte) (*jobfile.Job, Imported, error) {
	x, err := adsfile.Read(path, raw, adsfile.Images{Said: image, Built: built(filepath.Dir(path))})
	if err != nil {
		return nil, Imported{}, err
	}
	im := Imported{From: x.From, Notes: []Note{}}
	for _, n := range x.Notes {
		im.Notes = append(im.Notes, Note{n.Line, n.Text})
	}
	if x.Only == "" {
		return x.Job, im, withEntry(path, x)
	}
	return x.Job, im, withFile(path, x.Only, x.Job)
}

// withEntry reads the folder of a job into it, which has to have the file that runs.
func withEntry(path string, x *adsfile.Import) error {
	folder := x.Job.Folder
	err := withSource(path, x.Job)
	if err != nil || x.Entry == "" || slices.ContainsFunc(x.Job.Source, func(f jobfile.File) bool { return f.Path == x.Entry }) {
		return err
	}
	return exit.New(exit.Usage, "write the path of a file as that folder has it", "%s:%d: %s is to run, and is no file in %s", text.Line(path), x.EntryLine, text.Line(x.Entry), text.Line(folder))
}

// withFile reads one file of a job's folder into the job.
func withFile(path, name string, j *jobfile.Job) error {
	at := filepath.Join(folderOf(path, j), name)
	raw, err := tasks.Contents(at, jobfile.MaxBody)
	if err != nil {
		return fmt.Errorf("%s: %w", text.Line(path), err)
	}
	if len(raw) > jobfile.MaxBody {
		return exit.New(exit.Usage, "make it part of an image", "%s: %s has more than %d bytes", text.Line(path), text.Line(name), jobfile.MaxBody)
	}
	info, err := os.Stat(at)
	if err != nil {
		return err
	}
	j.Folder, j.Source = "", []jobfile.File{{Path: name, Exec: info.Mode()&0o100 != 0, Data: raw}}
	return nil
}

var (
	registryForm = regexp.MustCompile(`(?m)^[ \t]*registry[ \t]*=[ \t]*([^\s]+)[ \t]*\r?$`)
	tagForm      = regexp.MustCompile(`(?m)^[ \t]*tag[ \t]*=[ \t]*([^\s]+)[ \t]*\r?$`)
)

// built is the image that config.ini beside the file names, as ads opctl build-image has written it: what @image stands for; empty: there is none.
func built(dir string) string {
	raw, err := tasks.Contents(filepath.Join(dir, "config.ini"), jobfile.MaxBody)
	if err != nil {
		return ""
	}
	registry, tag := registryForm.FindSubmatch(raw), tagForm.FindSubmatch(raw)
	if registry == nil || tag == nil {
		return ""
	}
	return string(registry[1]) + ":" + string(tag[1])
}
