// Package jobcommand is what the programs of jobs may be on a host, beside what its owner says of them.
package jobcommand

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/work/taskenv"
)

// Command is what a member runs as a process of its host: Python with a file of the job's source, with a module or with a text of the job's, or an executable
// file of the source. A job names no other program of the host.
type Command struct {
	Python string   // the interpreter's name; empty: File is run
	File   string   // of the source, with slashes; empty: a module, or a text
	Words  []string // behind the interpreter, or behind the file
}

// maxSaid bounds what is said of a word, in bytes.
const maxSaid = 160

var (
	pythonName = regexp.MustCompile(`^python[0-9.]*$`)
	moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
)

// torchrun is a command that Python packages install; as a module it runs in the Python that has torch.
var torchrun = []string{"python3", "-m", "torch.distributed.run"}

// ForHost reads the words of a program.
func ForHost(words []string, source []jobfile.File) (c Command, err error) {
	if len(words) == 0 {
		return c, errors.New("it has no command")
	}
	if err := launch.CheckArgs(words); err != nil {
		return c, err
	}
	if words[0] == "torchrun" {
		words = append(slices.Clone(torchrun), words[1:]...)
	}
	if !pythonName.MatchString(path.Base(words[0])) {
		return ownFile(words, source)
	}
	c.Python, words = path.Base(words[0]), words[1:] // the host's own of that name
	for len(words) > 0 && words[0] == "-u" {         // PYTHONUNBUFFERED says so anyway
		words = words[1:]
	}
	switch {
	case len(words) > 1 && words[0] == "-m" && moduleName.MatchString(words[1]):
		c.Words = words
		return c, nil
	case len(words) > 1 && words[0] == "-c":
		c.Words = words
		return c, nil
	case len(words) > 0:
		if f := fileOf(words[0], source); f != nil {
			c.File, c.Words = f.Path, append([]string{f.Path}, words[1:]...)
			return c, nil
		}
	}
	given := "nothing"
	if len(words) > 0 {
		given = fmt.Sprintf("%q", text.Clip(words[0], maxSaid))
	}
	return c, fmt.Errorf("it gives %s %s, and a process runs files of the job's source, modules (-m NAME) and texts (-c TEXT) alone: write %s FILE, or run it in a container with image", c.Python, given, c.Python)
}

// ownFile is a program of the job's source.
func ownFile(words []string, source []jobfile.File) (c Command, err error) {
	f := fileOf(words[0], source)
	switch {
	case f == nil:
		return c, fmt.Errorf("it runs %q, and a process runs Python and executable files of the job's source alone: run it in a container with image", text.Clip(words[0], maxSaid))
	case !f.Exec:
		return c, fmt.Errorf("it runs %s, which is not executable: chmod +x it in the job's source", f.Path)
	}
	return Command{File: f.Path, Words: words[1:]}, nil
}

// fileOf is a file of the source that a word names from its folder; nil: it names none.
func fileOf(word string, source []jobfile.File) *jobfile.File {
	i := slices.IndexFunc(source, func(f jobfile.File) bool { return f.Path == path.Clean(word) })
	if i < 0 {
		return nil
	}
	return &source[i]
}

// CheckEnv refuses variables of a group, also those that are secrets, which would change what a program is, or what of its host it has.
func CheckEnv(g framework.Group, process bool) error {
	all := slices.Clone(g.Env)
	for _, s := range g.Secrets {
		if !s.File {
			all = append(all, jobfile.Var{Name: s.Name})
		}
	}
	for _, v := range all {
		why := ""
		switch taskenv.Judge(v.Name, v.Value, process) {
		case taskenv.Free:
			continue
		case taskenv.Malformed:
			why = "is no variable with a value"
		case taskenv.Devices:
			why = "says which GPUs of this host a program has, which its owner does"
		case taskenv.Loads:
			why = "could have a process run other code than its program, unless it runs in a container"
		}
		return fmt.Errorf("its env sets %.80q, which %s: leave it out", v.Name, why)
	}
	return nil
}
