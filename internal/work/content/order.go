package content

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// order is what a task asks for.
type order struct {
	volumes []string
	ops     []op
	own     bool // a volume that no task made is none of it
}

// op is one step.
type op struct {
	from *url.URL // of a download; nil: it is unpacked
	file string   // that is unpacked, in the volume
	out  string   // in the volume: a file, or a directory to unpack into
}

var volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// order reads a task.
func (f *Filler) order(t *task.Task) (*order, error) {
	body, err := taskfile.ReadBody(t.Type, t.Definition)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	m, ok := body.(taskfile.MakeSwarmUserContent)
	if !ok {
		return nil, fmt.Errorf("task %s is no %s", t.Name, task.MakeSwarmUserContent)
	}
	o := &order{volumes: []string{t.Outcome}}
	if m.ContentType == taskfile.SwarmContent {
		o.volumes, o.own = nil, true
		for _, index := range f.cfg.Nodes {
			o.volumes = append(o.volumes, fmt.Sprintf("%s-%d", t.Outcome, index))
		}
	}
	if !volumeName.MatchString(t.Outcome) {
		return nil, fmt.Errorf("task %s: bad Outcome %.200q: it is to name a volume: use A-Z a-z 0-9 . _ -", t.Name, t.Outcome)
	}
	if len(o.volumes) == 0 {
		return nil, fmt.Errorf("task %s makes %s for nodes, and the profile of this host has none: list them under nodes", t.Name, taskfile.SwarmContent)
	}
	for i, x := range m.Ops {
		step, err := opOf(x)
		if err != nil {
			return nil, fmt.Errorf("task %s: OpsList[%d]: %w", t.Name, i, err)
		}
		o.ops = append(o.ops, step)
	}
	return o, nil
}

func opOf(x taskfile.Operation) (o op, err error) {
	if x.Operation == taskfile.Extract {
		o.file, err = extracted(x.Target)
		o.out = path.Clean(x.Out)
	} else {
		o.from, err = downloaded(x.Target)
		if o.out = path.Clean(x.Out); err == nil && x.Out == "" {
			o.out = path.Base(o.from.Path)
		}
	}
	switch {
	case err != nil:
		return o, err
	case !filepath.IsLocal(o.out) || o.from != nil && (o.out == "." || strings.HasSuffix(x.Out, "/")):
		return o, fmt.Errorf("bad Out %.200q: name a file or a directory in the volume, whose path does not begin with / and has no .. in it", x.Out)
	}
	return o, nil
}

// downloaded reads what is fetched.
func downloaded(target string) (*url.URL, error) {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return nil, fmt.Errorf("bad Target %.200q: it is no URL", target)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("bad Target %.200q: hosts fetch http:// and https:// alone; serve the file there", target)
	case u.User != nil:
		return nil, errors.New("bad Target: it has a password, which every node of the swarm would hold: use a URL without")
	}
	return u, nil
}

// extracted reads which file of the volume is unpacked. In the form file:///DIR/NAME its directory is not looked at: what the original has there
// is its own container's.
func extracted(target string) (string, error) {
	name := path.Clean(target)
	if u, err := url.Parse(target); err == nil && u.Scheme != "" {
		if u.Scheme != "file" {
			return "", fmt.Errorf("bad Target %.200q: EXTRACT unpacks a file that is in the volume: fetch it by DOWNLOAD before", target)
		}
		name = path.Base(u.Path)
	}
	if !filepath.IsLocal(name) || name == "." {
		return "", fmt.Errorf("bad Target %.200q: name a file in the volume", target)
	}
	return name, nil
}
