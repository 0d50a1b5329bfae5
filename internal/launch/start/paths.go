package start

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/identity"
)

// readable is a directory that may be listed.
const readable uint32 = unix.R_OK | unix.X_OK

// paths are what an ML program's container gets of this host: absolute, and all there.
type paths struct {
	data, model string // "": none
	program     string // relative to model, or absolute in the container; "": none
	mounts      []string
}

// paths checks the paths that the user named. Without ModelDir the program's own directory is the model directory. In a container they are the
// host's, absolute, and can't be looked at.
func (o *SL) paths(env Env) (p paths, err error) {
	p.program, p.data, p.model = o.Program, o.DataDir, o.ModelDir
	if env.contained() {
		p.mounts = o.ML.Volumes
		return p, nil
	}
	if p.model == "" && p.program != "" {
		if _, err := HostFile("model-program", p.program); err != nil {
			return p, fmt.Errorf("%w, or its directory with --model-dir", err)
		}
		p.model, p.program = filepath.Split(p.program)
		if p.model == "" {
			p.model = "."
		}
	}
	// Another user's permissions are for the probe to find out.
	read, write := readable, readable|unix.W_OK
	if o.ML.User != "" {
		read, write = 0, 0
	}
	if p.data != "" {
		if p.data, err = HostDir("data-dir", p.data, "path", read); err != nil {
			return p, err
		}
	}
	if p.model != "" {
		if p.model, err = HostDir("model-dir", p.model, "path", write); err != nil {
			return p, err
		}
	}
	if p.program != "" {
		if p.program, err = modelProgram(p.model, p.program); err != nil {
			return p, err
		}
	}
	p.mounts, err = mounts("ml-v", o.ML.Volumes)
	return p, err
}

// keepIdentity refuses to give a program a directory that its node's identity lies in: with it the program could speak for
// the node.
func (o *SL) keepIdentity(p paths) error {
	given := [][2]string{{"data-dir", p.data}, {"model-dir", p.model}}
	for _, m := range p.mounts {
		source, _, _ := strings.Cut(m, ":")
		given = append(given, [2]string{"ml-v", source})
	}
	authority, embedded := strings.CutPrefix(o.Identity, "embedded=")
	if !embedded {
		authority = ""
	}
	for _, own := range [][2]string{
		{"key", o.Key}, {"state-dir", o.StateDir}, {"identity", authority}, {"socket-path", identity.UnixPath(o.SocketPath)},
	} {
		for _, g := range given {
			if own[1] != "" && filepath.IsAbs(g[1]) && lies(own[1], g[1]) {
				return fmt.Errorf("--%s: %s: bad path: --%s %s lies in it, with which the program could speak for the node; keep them apart", g[0], g[1], own[0], own[1])
			}
		}
	}
	return nil
}

// lies reports whether a path leads into a directory, or to it.
func lies(path, dir string) bool {
	return strings.HasPrefix(follow(path)+"/", strings.TrimSuffix(follow(dir), "/")+"/")
}

// follow is a path without links as far as it exists.
func follow(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if followed, err := filepath.EvalSymlinks(abs); err == nil {
		return followed
	}
	if parent := filepath.Dir(abs); parent != abs { // a state directory is made later
		return filepath.Join(follow(parent), filepath.Base(abs))
	}
	return abs
}

// modelProgram is the program relative to the model directory. An absolute path that lies elsewhere is one in the image.
func modelProgram(model, program string) (string, error) {
	if filepath.IsAbs(program) {
		within, ok := strings.CutPrefix(filepath.Clean(program), model+"/")
		if !ok {
			return program, nil
		}
		program = within
	}
	if !filepath.IsLocal(program) {
		return "", fmt.Errorf("--model-program: %s: bad path: it leads out of the model directory %s; put the program into it", program, model)
	}
	_, err := HostFile("model-program", filepath.Join(model, program))
	return program, err
}

func isRoot() bool { return os.Geteuid() == 0 }
