package runswarm

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// program is what a task runs, where it runs as a process: by the paths of this host.
type program struct {
	python string // interpreter that the task names; "python3" where it only says that
	model  string // directory
	file   string // in it
	args   []string
	data   string // directory; empty: none
	env    []string
}

// pythonName is how a task may name the interpreter, in whatever directory it has it in its container.
var pythonName = regexp.MustCompile(`^python[0-9.]*$`)

// place is a directory of a container and what it is on this host.
type place struct{ inside, here string }

// resolve finds what a task runs for a node. A process has no container's directories, so a path of the task that lies in what the task
// mounts is the one that is mounted; this holds for arguments and variables too.
func resolve(r taskfile.RunSwarm, n *taskfile.Node, leads map[string]string) (p program, err error) {
	places, err := placesOf(r, n, leads)
	if err != nil {
		return p, err
	}
	words, err := wholeCommand(r)
	if err != nil {
		return p, err
	}
	name := path.Base(words[0])
	if !pythonName.MatchString(name) {
		return p, fmt.Errorf("the task runs %s, and a process runs Python programs only: give the SWOP an engine (--runtime docker)", words[0])
	}
	p.python = name // the host's own of that name: a task names no file of the host to be run
	words = words[1:]
	for len(words) > 0 && words[0] == "-u" { // an SL does so anyway
		words = words[1:]
	}
	switch {
	case len(words) == 0:
		return p, errors.New("the task runs Python without a program: name one in Command")
	case strings.HasPrefix(words[0], "-"):
		return p, fmt.Errorf("the task gives Python the option %s, and a process runs a file: name it in Command", words[0])
	}
	inside := words[0]
	if !path.IsAbs(inside) {
		inside = path.Join(r.WorkingDir, inside)
	}
	at := innermost(places, inside)
	if at == nil {
		return p, fmt.Errorf("the task's program %s lies in nothing that the task mounts: name the mount point of the host's directory as PrivateContent or in SharedContent", inside)
	}
	p.model, p.file = at.here, strings.TrimPrefix(path.Clean(inside), at.inside+"/")
	if n.PrivateData.Src != "" && r.PrivateContent != "" {
		p.data = n.PrivateData.Src
	}
	for _, w := range words[1:] {
		p.args = append(p.args, translatedArg(places, w))
	}
	if err := launch.CheckArgs(p.args); err != nil {
		return p, fmt.Errorf("the task's program: %w", err)
	}
	for _, v := range n.ProgramEnv(r) {
		p.env = append(p.env, v.Name+"="+translated(places, v.Value))
	}
	return p, nil
}

// wholeCommand is the whole command of a task.
func wholeCommand(r taskfile.RunSwarm) (words []string, err error) {
	for _, part := range [][2]string{{"Entrypoint", r.Entrypoint}, {"Command", r.Command}} {
		more, err := shellwords.Split(part[1])
		if err != nil {
			return nil, fmt.Errorf("%s of the task: %w", part[0], err)
		}
		words = append(words, more...)
	}
	if len(words) == 0 {
		return nil, errors.New("the task runs nothing: write Entrypoint and Command")
	}
	return words, nil
}

// placesOf are what a node's program is to see of this host. leads are where the paths lead that the task names; one that is not among them
// nobody was asked about.
func placesOf(r taskfile.RunSwarm, n *taskfile.Node, leads map[string]string) (all []place, err error) {
	add := func(of, inside, here, mount string) {
		switch {
		case strings.EqualFold(mount, taskfile.Volume):
			err = errors.Join(err, fmt.Errorf("%s is in the volume %s, and a process sees no volumes: use a directory, with mType BIND", of, here))
		case !path.IsAbs(inside) || path.Clean(inside) == "/":
			err = errors.Join(err, fmt.Errorf("%s is mounted at %s: write an absolute path below /", of, inside))
		case !filepath.IsAbs(here):
			err = errors.Join(err, fmt.Errorf("%s names the directory %s: write its absolute path on this host", of, here))
		default:
			all = append(all, place{path.Clean(inside), filepath.Clean(here)})
		}
	}
	if n.PrivateData.Src != "" && r.PrivateContent != "" {
		add("PrivateContent", r.PrivateContent, n.PrivateData.Src, n.PrivateData.MountType)
	}
	for _, s := range r.SharedContent {
		here, followed := leads[s.Src]
		if !followed && filepath.IsAbs(s.Src) && !strings.EqualFold(s.MountType, taskfile.Volume) {
			err = errors.Join(err, fmt.Errorf("SharedContent names the directory %.200q, which this host's policy was not asked about: assign the task again", s.Src))
			continue
		}
		add("SharedContent", s.Tgt, cmp.Or(here, s.Src), s.MountType)
	}
	return all, err
}

// innermost returns the innermost place that a path of a container lies in, or is; nil: none.
func innermost(places []place, inside string) (best *place) {
	inside = path.Clean(inside)
	for i, p := range places {
		if (inside == p.inside || strings.HasPrefix(inside, p.inside+"/")) && (best == nil || len(p.inside) > len(best.inside)) {
			best = &places[i]
		}
	}
	return best
}

// translatedArg is an argument whose path, be it all of it or an option's value, is one of this host as those of variables are.
func translatedArg(places []place, arg string) string {
	if option, value, found := strings.Cut(arg, "="); found && strings.HasPrefix(option, "-") {
		return option + "=" + translated(places, value)
	}
	return translated(places, arg)
}

// translated is the value of a variable, which names a path of this host if it named one of the container that is the same.
func translated(places []place, value string) string {
	if !path.IsAbs(value) {
		return value
	}
	at := innermost(places, value)
	if at == nil {
		return value
	}
	return filepath.Join(at.here, strings.TrimPrefix(path.Clean(value), at.inside))
}
