package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/doctor"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/space"
	"github.com/swarmd/swarmd/node"
	"github.com/swarmd/swarmd/python"
)

// engineLimit bounds the looks at a container engine, which tries the program's image in a container for a moment.
const engineLimit = 75 * time.Second

// program looks at what an SL would run.
func (p *patient) program(ctx context.Context, o *start.SL, cfg node.SLConfig) {
	switch {
	case cfg.Attach:
		p.out.Add(doctor.Skip("program", "--attach: it is started by hand"))
		return
	case cfg.ML != nil:
		p.mlContainer(ctx, o)
		return
	case inContainer(p.c):
		p.out.Add(doctor.Skip("program", "it runs in the component's container, by that image's Python"))
		return
	}
	var where []doctor.Row
	if err := launch.CheckProgram(cfg.ModelDir, cfg.DataDir, cfg.Program); err != nil {
		where = doctor.Errors("program", err, "correct --model-dir, --data-dir or --model-program")
	} else {
		where = []doctor.Row{doctor.Well("program", filepath.Join(cfg.ModelDir, filepath.Base(cfg.Program))), data(cfg.DataDir)}
	}
	p.out.Add(where...)
	p.python(ctx, o, cfg)
}

// data looks whether a program of this user could read the data.
func data(dir string) doctor.Row {
	const check, looked = "data", 1000
	if dir == "" {
		return doctor.Skip(check, "no --data-dir is given")
	}
	f, err := os.Open(dir)
	if err != nil {
		return doctor.Fail(check, err.Error(), "let this user read it, or correct --data-dir")
	}
	defer f.Close()
	entries, err := f.ReadDir(looked)
	if len(entries) == 0 {
		return doctor.Warn(check, fmt.Sprintf("%s is empty", dir), "put the data there, or correct --data-dir")
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); unix.Access(path, unix.R_OK) != nil {
			return doctor.Fail(check, path+" can not be read by this user", "change its permissions: the program runs as this user")
		}
	}
	if err != nil {
		return doctor.Fail(check, err.Error(), "let this user read it, or correct --data-dir")
	}
	return doctor.Well(check, fmt.Sprintf("%s can be read", dir))
}

// python looks at the interpreter that would run the program, and what it has.
func (p *patient) python(ctx context.Context, o *start.SL, cfg node.SLConfig) {
	const check = "python"
	module, remedy := launch.Framework(cfg.Platform)
	interpreter, err := launch.FindPython(ctx, cfg.Platform, cfg.Python, p.e.Getenv)
	if err != nil {
		p.out.Add(doctor.Errors(check, err, remedy+"; or name another python with --python")...)
		return
	}
	env := append(os.Environ(), cfg.Env...)
	about, err := launch.Describe(ctx, interpreter, cfg.Platform, env)
	if err != nil {
		p.out.Add(doctor.Fail(check, fmt.Sprintf("%s does not import %s: %v", interpreter, module, err), remedy+"; or name another python with --python"))
		return
	}
	p.out.Add(doctor.Well(check, fmt.Sprintf("%s is Python %s with %s %s", interpreter, about.Python, about.Module, about.Framework)))
	p.out.Add(seen(about, o.GPUs))
	dir, err := os.MkdirTemp("", "swarmd-doctor-")
	if err != nil {
		p.out.Add(doctor.Fail("package", err.Error(), "let this user write to the directory for temporary files"))
		return
	}
	defer os.RemoveAll(dir)
	found, err := launch.FindPackage(ctx, interpreter, env, filepath.Dir(filepath.Join(cfg.ModelDir, cfg.Program)), python.Source(), dir)
	switch {
	case err != nil && cfg.Client != launch.ClientOwn:
		p.out.Add(doctor.Warn("package", err.Error(), "say which client the program has with --ml-client"))
	case err != nil:
		p.out.Add(doctor.Errors("package", err, "move what shadows the package to another folder")...)
	case found.Foreign != "":
		p.out.Add(doctor.Warn("package", found.Foreign+" is another swarmlearning package; the program imports swarmd's instead", "uninstall it if it is not used"))
	default:
		p.out.Add(doctor.Well("package", "the program finds swarmd's swarmlearning package"))
	}
}

// seen judges how many GPUs a framework sees, and whether some were wanted.
func seen(about launch.About, wanted string) doctor.Row {
	const check = "gpu"
	switch {
	case about.GPUs > 0:
		return doctor.Well(check, fmt.Sprintf("%s sees %d", about.Module, about.GPUs))
	case wanted != "":
		return doctor.Fail(check, fmt.Sprintf("--gpu %s is given, and %s sees none", wanted, about.Module), "install a build of "+about.Module+" for GPUs and the driver (nvidia-smi shows it), or leave out --gpu")
	}
	return doctor.Well(check, about.Module+" sees none; the program trains on the CPU")
}

// mlContainer looks at the program's image, and in a container of it for a moment at what the program would find.
func (p *patient) mlContainer(ctx context.Context, o *start.SL) {
	const check = "program"
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	eng, err := engine.Open(ctx)
	if err != nil {
		p.out.Add(doctor.Errors("engine", err, "start Docker or Podman, or name its socket with DOCKER_HOST")...)
		return
	}
	defer eng.Close()
	p.out.Add(engineRow(ctx, eng))
	spec, err := o.MLContainer(startEnv(p.e))
	if err == nil {
		spec.BridgeDir, spec.Spill, spec.Log = "", "", discard() // they are made later
		err = container.New(eng, discard()).Check(ctx, *spec)
	}
	if err != nil {
		p.out.Add(doctor.Errors(check, err, "correct the options of the ML program's container")...)
		return
	}
	p.out.Add(doctor.Well(check, fmt.Sprintf("image %s can run it: data can be read, the model written, the framework imported", spec.Image)))
	network := spec.Network
	if network == "" || network == "none" {
		p.out.Add(doctor.Well("network", "the program has none, as it should be"))
		return
	}
	p.out.Add(doctor.Warn("network", "the program can reach the network "+network, "leave out --ml-network unless the program must: it could send the data away"))
}

func engineRow(ctx context.Context, eng *engine.Engine) doctor.Row {
	v, err := eng.ServerVersion(ctx)
	if err != nil {
		return doctor.Fail("engine", err.Error(), "look at the engine's log")
	}
	name := "Docker"
	for _, c := range v.Components {
		if strings.Contains(c.Name, "Podman") {
			name = "Podman"
		}
	}
	return doctor.Well("engine", fmt.Sprintf("%s %s, API %s", name, v.Version, v.APIVersion))
}

// engine looks at the engine that is to run the node itself.
func (p *patient) engine(ctx context.Context, address, image string) {
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	eng, err := engine.OpenAt(ctx, address)
	if err != nil {
		p.out.Add(doctor.Errors("engine", err, "start Docker or Podman, or name its socket with DOCKER_HOST")...)
		return
	}
	defer eng.Close()
	p.out.Add(engineRow(ctx, eng))
	image = cmp.Or(image, engine.ImageSwarmd)
	if _, err := eng.ImageInspect(ctx, image); err != nil {
		p.out.Add(doctor.Fail("image", fmt.Sprintf("%s is not there: %v", image, err), "build it with scripts/images, or load it with docker load, or name another one with --image"))
		return
	}
	p.out.Add(doctor.Well("image", image+" is there"))
}

// space looks whether weight files have room.
func (p *patient) space(bridgeDir string, o *start.SL) {
	if err := bridge.CheckDir(bridgeDir); err != nil {
		p.out.Add(doctor.Errors("memory", err, "name another directory with --bridge-dir")...)
	}
	bytes := p.c.Int64(modelBytesFlag)
	if most := int64(o.MaxModel); most > 0 && bytes > most {
		p.out.Add(doctor.Fail("memory", fmt.Sprintf("the model has %s, and --max-model lets it have %s", doctor.Bytes(bytes), doctor.Bytes(most)), "raise --max-model"))
	}
	p.out.Add(doctor.Weights(roomIn("memory", bridgeDir, bytes), roomIn("disk", p.base.StateDir, bytes), bytes)...)
}

// stateSpace is the room for an SN's state.
func (p *patient) stateSpace() doctor.Row {
	return doctor.Disk(roomIn("disk", p.base.StateDir, 0))
}

func roomIn(check, dir string, bytes int64) doctor.Space {
	s := doctor.Space{Check: check, Dir: dir, At: space.Existing(dir), Free: -1}
	if free, err := space.Free(s.At); err == nil {
		s.Free = free
	}
	if bytes > 0 {
		s.Err = space.Fits(s.At, min(bytes, (1<<63-1)/doctor.Slots)*doctor.Slots)
	}
	return s
}

// gpus looks at the GPUs of this machine if some are wanted.
func (p *patient) gpus(ctx context.Context, o *start.SL) {
	if o.GPUs == "" {
		return
	}
	const check, remedy = "gpu", "install the GPU's driver; leave out --gpu where there is none"
	ctx, cancel := p.within(ctx, "answer of nvidia-smi")
	defer cancel()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "-L").Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		p.out.Add(doctor.Warn(check, "there is no nvidia-smi here to list the GPUs with", remedy))
	case err != nil:
		p.out.Add(doctor.Fail(check, fmt.Sprintf("nvidia-smi -L fails: %v", err), remedy))
	default:
		p.out.Add(doctor.Well(check, fmt.Sprintf("nvidia-smi lists %d", bytes.Count(out, []byte("\n")))))
	}
}

// usable fails unless this user can write to the directory, or make it in the lowest one above that is there, which it returns.
func usable(dir string) (above string, err error) {
	above = space.Existing(dir)
	if info, err := os.Stat(above); err == nil && !info.IsDir() {
		return above, fmt.Errorf("%s is no directory", above)
	}
	if unix.Access(above, unix.W_OK|unix.X_OK) != nil {
		return above, fmt.Errorf("%s can not be written to by this user", above)
	}
	return above, nil
}
