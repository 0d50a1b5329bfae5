package jobs

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

//go:embed files
var files embed.FS

// Written is what Init has written.
type Written struct {
	Dir       string   `json:"dir" doc:"the job's folder"`
	Framework string   `json:"framework" doc:"as --framework names it"`
	Files     []string `json:"files" doc:"what was written, relative to the folder"`
}

// Init writes a job of a framework to a folder, which is made if it does not exist: its file, a small program, and a Dockerfile with what that
// needs; with process a job of processes, which has no image. It writes over nothing.
func Init(dir, framework string, process bool) (w Written, err error) {
	if !slices.Contains(jobfile.Frameworks, framework) {
		hint := "use " + strings.Join(jobfile.Frameworks, ", ")
		if near := suggest.Word(framework, jobfile.Frameworks); near != "" {
			hint = "did you mean " + near + "?"
		}
		return w, exit.New(exit.Usage, hint, "--framework %s is not known", text.Line(framework))
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return w, err
	}
	templates, err := files.ReadDir(path.Join("files", framework))
	if err != nil {
		return w, err
	}
	if process {
		templates = slices.DeleteFunc(templates, func(t fs.DirEntry) bool { return t.Name() == "Dockerfile" })
	}
	w = Written{Dir: dir, Framework: framework}
	for _, t := range templates {
		name := t.Name()
		if path.Ext(name) == ".py" {
			name = "source/" + name
		}
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); !errors.Is(err, fs.ErrNotExist) {
			return w, exit.New(exit.Conflict, "name another folder", "%s has a %s already", text.Line(dir), name)
		}
		w.Files = append(w.Files, name)
	}
	fill := strings.NewReplacer("@NAME@", jobName(filepath.Base(abs)))
	for i, t := range templates {
		raw, err := files.ReadFile(path.Join("files", framework, t.Name()))
		if err != nil {
			return w, err
		}
		body := fill.Replace(string(raw))
		if process {
			body = withoutImage(body)
		}
		if err := put(filepath.Join(dir, filepath.FromSlash(w.Files[i])), body); err != nil {
			return w, fmt.Errorf("write job: %w", err)
		}
	}
	return w, nil
}

var imageLine = regexp.MustCompile(`(?m)^image: .*\n`)

// withoutImage is a job file of processes.
func withoutImage(file string) string { return imageLine.ReplaceAllString(file, "") }

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// jobName is a folder's name as a job can have it.
func jobName(folder string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(folder), "-"), "-")
	if name = strings.Trim(name[:min(len(name), 40)], "-"); name == "" {
		return "job"
	}
	return name
}

// put writes a file that is not there yet, and the folder that it is in.
func put(name, body string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(body)
	return errors.Join(err, f.Close())
}
