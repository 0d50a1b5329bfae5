package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/rendezvous"
	"github.com/swarmd/swarmd/python"
)

// process runs an SL's program as a child of the daemon.
type process struct {
	cfg    Config
	spec   launch.Spec // unless cfg.Start is given
	python string
}

// child is a process as a Running.
type child struct{ *launch.Process }

// ID implements Running.
func (c child) ID() string { return strconv.Itoa(c.PID()) }

// prepareProcess checks everything about the program that can be checked before anything is started.
func prepareProcess(ctx context.Context, cfg Config) (*process, error) {
	if cfg.Start != nil {
		return &process{cfg: cfg}, nil
	}
	if err := launch.CheckProgram(cfg.ModelDir, cfg.DataDir, cfg.Program); err != nil {
		return nil, err
	}
	if cfg.Python == "" {
		cfg.Log.Info("looking for a Python that imports the platform's framework; --python names one", "platform", cfg.Platform)
	}
	interpreter, err := launch.FindPython(ctx, cfg.Platform, cfg.Python, cfg.Getenv)
	if errors.Is(err, launch.ErrNoneImports) && strings.EqualFold(cfg.Platform, "TF") {
		return nil, fmt.Errorf("%w (--sl-platform is TF by default; for PyTorch give PYT)", err)
	}
	if err != nil {
		return nil, err
	}
	return newProcess(ctx, cfg, interpreter)
}

func newProcess(ctx context.Context, cfg Config, interpreter string) (*process, error) {
	model, err := filepath.Abs(cfg.ModelDir)
	if err != nil {
		return nil, err
	}
	data := cfg.DataDir
	if data != "" {
		if data, err = filepath.Abs(data); err != nil {
			return nil, err
		}
	}
	environ := launch.EnvConfig{
		Inherit: os.Environ(), DataDir: data, ModelDir: model, BridgeDir: cfg.BridgeDir, Peer: cfg.Node, Extra: cfg.Env,
	}
	own, err := launch.ProgramEnv(environ)
	if err != nil {
		return nil, err
	}
	path := cfg.Program
	if !filepath.IsAbs(path) {
		path = filepath.Join(model, path)
	}
	extracted := filepath.Join(cfg.StateDir, "python")
	served := cfg.servesOriginal(filepath.Dir(path))
	if !served {
		environ.Package, err = launch.FindPackage(ctx, interpreter, own, filepath.Dir(path), python.Source(), extracted)
	}
	if err != nil {
		return nil, err
	}
	if found := environ.Package.Foreign; found != "" {
		cfg.Log.Warn("another swarmlearning package is installed; the program imports swarmd's instead", "found", found, "package", environ.Package.Path)
	}
	full, err := launch.ProgramEnv(environ)
	if err != nil {
		return nil, err
	}
	binds, err := launch.FixedPaths(ctx, path, model, data, slices.Concat(cfg.Env, cfg.Args))
	switch {
	case err != nil:
		cfg.Log.Warn("the program can not have its directories at fixed paths", "err", err)
	case len(binds) > 0:
		cfg.Log.Info("the program names the fixed paths of containers: it has its directories there too", "data", engine.DataDir, "model", engine.ModelDir)
	}
	spec := launch.Spec{
		Name: cfg.Program, Path: interpreter, Args: append([]string{"-u", path}, cfg.Args...), Dir: model, Env: full, Grace: stopGrace,
		Binds: binds, LogFile: launch.LogFile(model, cfg.Program), Line: cfg.line,
	}
	if served {
		err = cfg.serveOriginal(ctx, &spec)
	}
	return &process{cfg: cfg, spec: spec, python: interpreter}, err
}

func (p *process) name() string { return "process" }

func (p *process) isolation() string { return noIsolation }

// noIsolation is what the other peers are told of a program that no container keeps in.
const noIsolation = "none: process runtime"

func (p *process) start(ctx context.Context, env []string, meets *rendezvous.Meeting) (Running, error) {
	if p.cfg.Start != nil {
		return p.cfg.Start(ctx)
	}
	spec := p.spec
	spec.Env = launch.LastWins(spec.Env, env)
	if meets != nil {
		words := slices.Concat(meets.Wrap("/proc/self/exe"), []string{spec.Path}, spec.Args)
		spec.Path, spec.Args = words[0], words[1:]
	}
	started, err := launch.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	p.cfg.Log.Info("program started", "program", p.cfg.Program, "python", p.python, "pid", started.PID())
	p.cfg.Log.Warn("runtime process: the program is not isolated, it sees this machine and its network as the daemon does")
	return child{started}, nil
}
