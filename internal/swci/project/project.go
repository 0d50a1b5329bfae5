// Package project writes small training programs that run in a swarm as they are: `swarmctl new`.
package project

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

//go:embed files
var files embed.FS

// Framework is what a project can be made for.
type Framework struct {
	Name     string // as --framework takes it
	Title    string // for people
	Platform string // as `local run --platform` takes it
	slName   string // as `run-sl --sl-platform` takes it
	modules  string // what the program imports
	remedy   string // how to get it
	data     string // the folder of files with its data.py
}

// frameworks is the one table of what there are templates for.
var frameworks = []Framework{
	{"pyt", "PyTorch", "PYT", "PYT", "`torch` and `numpy`", "`apt-get install python3-torch`, or `pip install torch numpy`", "vectors"},
	{"tf", "Keras", "TF", "TF", "`tensorflow`", "`pip install tensorflow-cpu`", "vectors"},
	{"numpy", "numpy", "NUMPY", "PYT", "`numpy`", "`apt-get install python3-numpy`, or `pip install numpy`", "vectors"},
	{"sklearn", "scikit-learn", "SKLEARN", "PYT", "`sklearn`", "`apt-get install python3-sklearn`, or `pip install scikit-learn`", "vectors"},
	{"hf", "Hugging Face", "HF", "PYT", "`transformers`, `accelerate` and `torch`", "`pip install transformers accelerate torch`", "hf"},
}

// Names returns the frameworks' names, in the order of help.
func Names() []string {
	var names []string
	for _, f := range frameworks {
		names = append(names, f.Name)
	}
	return names
}

// Project is what was written.
type Project struct {
	Dir       string
	Framework Framework
	Files     []string // relative to Dir, with slashes
}

// Write makes a project for the named framework in dir, which is made if it does not exist and must be empty if it does.
// swarmctl is the command that its run.sh calls. After an error dir may hold some of the files.
func Write(dir, framework, swarmctl string) (Project, error) {
	f, err := find(framework)
	if err != nil {
		return Project{}, err
	}
	if err := makeEmpty(dir); err != nil {
		return Project{}, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Project{}, err
	}
	arguments := fmt.Sprintf("local run --peers 3 --platform %s --model-dir model --model-program train.py --out out --baseline", f.Platform)
	fill := strings.NewReplacer(
		"@NAME@", text.Line(filepath.Base(abs)), "@FRAMEWORK@", f.Title, "@MODULES@", f.modules, "@REMEDY@", f.remedy, "@SLPLATFORM@", f.slName,
		"@COMMAND@", "swarmctl "+arguments, "@ARGUMENTS@", arguments, "@SWARMCTL@", oneWord(swarmctl),
	)
	p := Project{Dir: dir, Framework: f}
	for _, file := range []struct {
		to, from string
		mode     fs.FileMode
	}{
		{"README.md", "README.md", 0o644},
		{"run.sh", "run.sh", 0o755},
		{"model/train.py", path.Join(f.Name, "train.py"), 0o644},
		{"model/data.py", path.Join(f.data, "data.py"), 0o644},
	} {
		body, err := files.ReadFile(path.Join("files", file.from))
		if err != nil {
			return Project{}, err
		}
		if err := writeNew(filepath.Join(dir, filepath.FromSlash(file.to)), fill.Replace(string(body)), file.mode); err != nil {
			return Project{}, fmt.Errorf("write project: %w", err)
		}
		p.Files = append(p.Files, file.to)
	}
	return p, nil
}

func find(name string) (Framework, error) {
	for _, f := range frameworks {
		if strings.EqualFold(f.Name, name) {
			return f, nil
		}
	}
	return Framework{}, exit.New(exit.Usage, "use "+strings.Join(Names(), ", "), "--framework %s is not known", name)
}

// makeEmpty makes dir, or finds it empty.
func makeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make project: %w", err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("make project: %w", err)
	case len(entries) > 0:
		return exit.New(exit.Conflict, "name a folder that does not exist yet, or an empty one", "%s is not empty", dir)
	}
	return nil
}

// writeNew writes a file that does not exist yet, and the folder that it is in.
func writeNew(name, body string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(body)
	return errors.Join(err, f.Close())
}

// oneWord is one word of a shell, whatever is in it.
func oneWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
