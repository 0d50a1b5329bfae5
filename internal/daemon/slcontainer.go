package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/node"
)

// mlPaths are what an ML program's container gets of this host: absolute, and all there.
type mlPaths struct {
	data, model string // "": none
	program     string // relative to model, or absolute in the container; "": none
	mounts      []string
}

// mlPathsOf checks the paths that the user named. Without --model-dir the program's own directory is the model directory.
func mlPathsOf(c *cli.Context) (p mlPaths, err error) {
	p.program = c.String("model-program")
	p.data, p.model = c.String("data-dir"), c.String("model-dir")
	if p.model == "" && p.program != "" {
		if _, err := hostFile("model-program", p.program); err != nil {
			return p, fmt.Errorf("%w, or its directory with --model-dir", err)
		}
		p.model, p.program = filepath.Split(p.program)
		if p.model == "" {
			p.model = "."
		}
	}
	// Another user's permissions are for the probe to find out.
	read, write := uint32(unix.R_OK|unix.X_OK), uint32(unix.R_OK|unix.W_OK|unix.X_OK)
	if c.String("ml-user") != "" {
		read, write = 0, 0
	}
	if p.data != "" {
		if p.data, err = hostDir("data-dir", p.data, "path", read); err != nil {
			return p, err
		}
	}
	if p.model != "" {
		if p.model, err = hostDir("model-dir", p.model, "path", write); err != nil {
			return p, err
		}
	}
	if p.program != "" {
		if p.program, err = modelProgram(p.model, p.program); err != nil {
			return p, err
		}
	}
	p.mounts, err = mounts("ml-v", c.StringSlice("ml-v"))
	return p, err
}

// keepIdentity refuses to give a program a directory that its node's identity lies in: with it the program could speak for
// the node.
func keepIdentity(c *cli.Context, p mlPaths) error {
	given := [][2]string{{"data-dir", p.data}, {"model-dir", p.model}}
	for _, m := range p.mounts {
		source, _, _ := strings.Cut(m, ":")
		given = append(given, [2]string{"ml-v", source})
	}
	authority, embedded := strings.CutPrefix(c.String("identity"), "embedded=")
	if !embedded {
		authority = ""
	}
	for _, own := range [][2]string{
		{"key", c.String("key")},
		{"state-dir", c.String("state-dir")},
		{"identity", authority},
		{"socket-path", strings.TrimPrefix(c.String("socket-path"), "unix://")},
	} {
		for _, g := range given {
			if own[1] != "" && filepath.IsAbs(g[1]) && lies(own[1], g[1]) {
				return fmt.Errorf("--%s: %s: bad path: --%s %s lies in it, with which the program could speak for the node; keep them apart", g[0], g[1], own[0], own[1])
			}
		}
	}
	return nil
}

// lies tells whether a path leads into a directory, or to it.
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
	_, err := hostFile("model-program", filepath.Join(model, program))
	return program, err
}

// withMLContainer describes the ML program's container to the node. In a component's container the launcher has checked the
// paths, which are the host's; this process sees the model directory and the spilled weight files elsewhere.
func withMLContainer(c *cli.Context, e Env, cfg *node.SLConfig) error {
	s, err := mlSpec(c, e)
	if err != nil {
		return err
	}
	s.Node, s.Scope, s.BridgeDir = cfg.Name, engine.Scope(e.Getenv), cfg.BridgeDir
	cfg.ML, cfg.Env = s, s.Env
	if e.Getenv("SWARM_IN_CONTAINER") != "" {
		s.Spill, cfg.SpillDir = component.SpillVolume(s.Scope, cfg.Name), engine.SpillDir
		cfg.DataDir, cfg.ModelDir = inside(s.DataDir, engine.DataDir), inside(s.ModelDir, engine.ModelDir)
		return nil
	}
	p, err := mlPathsOf(c)
	if err == nil {
		err = keepIdentity(c, p)
	}
	if err != nil {
		return err
	}
	s.DataDir, s.ModelDir, s.Program, s.Mounts = p.data, p.model, p.program, p.mounts
	cfg.DataDir, cfg.ModelDir, cfg.Program = p.data, p.model, p.program
	return nil
}

// mlCheck tries the ML program's container before its daemon is started in another one.
func mlCheck(cfg node.SLConfig) check {
	return func(ctx context.Context, e *engine.Engine, log *slog.Logger) error {
		if cfg.ML == nil {
			return nil
		}
		return container.New(e, log).Check(ctx, *cfg.ML)
	}
}

// slSpec is the component of an SL. Its daemon starts the program's container beside itself and therefore gets the paths of
// this host; if the program is to run within it, paths are those of its own container.
func slSpec(c *cli.Context, e Env) (component.Spec, error) {
	cfg, err := slConfig(c, e)
	if err != nil {
		return component.Spec{}, err
	}
	ml, err := mlRuntime(c)
	if err != nil {
		return component.Spec{}, err
	}
	s, err := nodeSpec(c, e, engine.RoleSL, cfg.Name, "sl-fs-port")
	if err != nil {
		return s, err
	}
	s.Platform = cfg.Platform
	s.EngineSocket = ml == runtimeDocker && !cfg.Attach
	s.Spill = s.EngineSocket
	if err := withIdentity(c, e, &s); err != nil {
		return s, err
	}
	if s.BridgeDir, err = filepath.Abs(cfg.BridgeDir); err != nil {
		return s, err
	}
	s.Args = append(s.Args, "--bridge-dir="+s.BridgeDir, "--ml-runtime="+ml)
	for _, kv := range s.Env {
		k, _, _ := strings.Cut(kv, "=")
		s.Args = append(s.Args, "--env="+k) // see keyValues
	}
	if cfg.Attach {
		return s, nil
	}
	p, err := mlPathsOf(c)
	if err != nil {
		return s, err
	}
	if p.model != "" {
		s.Mounts = append(s.Mounts, component.Mount{Source: p.model, Target: engine.ModelDir})
	}
	if !s.EngineSocket {
		if p.data != "" {
			s.Mounts = append(s.Mounts, component.Mount{Source: p.data, Target: engine.DataDir, ReadOnly: true})
		}
		p.data, p.model = inside(p.data, engine.DataDir), inside(p.model, engine.ModelDir)
	} else {
		s.Args = append(s.Args, "--ml-user="+cfg.ML.User)
		for _, m := range p.mounts {
			s.Args = append(s.Args, "--ml-v="+m)
		}
	}
	for _, kv := range [][2]string{{"data-dir", p.data}, {"model-dir", p.model}, {"model-program", p.program}} {
		if kv[1] != "" {
			s.Args = append(s.Args, "--"+strings.Join(kv[:], "="))
		}
	}
	return s, nil
}

// inside is where a directory of the host, if there is one, lies in the container.
func inside(host, target string) string {
	if host == "" {
		return ""
	}
	return target
}
