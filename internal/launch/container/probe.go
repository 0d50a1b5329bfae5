package container

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	probeLimit  = 60 * time.Second
	probeOutput = 64 << 10 // bytes of a probe's output that are looked at
	probeMark   = "swarmd-probe "
)

// Whose package swarmlearning a program would import: what a probe says as "package", with its folder as "package-at".
const (
	packageNone     = "no"
	packageOurs     = "ours"
	packageOriginal = "original" // has the original's messages to its SL
	// Anything else is another maker's.
)

var (
	//go:embed probe.sh
	probeScript string
	//go:embed probe.py
	probePython string
)

// report is what a probe said.
type report struct {
	said    map[string]string // by key; of a key that came twice the last
	sockets []socket
	gpus    []string // what nvidia-smi -L printed
}

// socket is one that a program would see below a target of the user's mounts.
type socket struct {
	dev, ino     uint64
	target, path string
}

// parseProbe reads a probe's output. Lines without the mark are somebody else's, or nvidia-smi's.
func parseProbe(lines []string) report {
	r := report{said: map[string]string{}}
	inGPUs := false
	for _, line := range lines {
		said, ok := strings.CutPrefix(line, probeMark)
		if !ok {
			if inGPUs {
				r.gpus = append(r.gpus, line)
			}
			continue
		}
		key, value, _ := strings.Cut(said, " ")
		switch key {
		case "gpu-list":
			inGPUs = true
		case "gpu-exit":
			inGPUs = false
		case "socket":
			var s socket
			id, rest, _ := strings.Cut(value, " ")
			s.target, s.path, _ = strings.Cut(rest, " ")
			dev, ino, _ := strings.Cut(id, ":")
			s.dev, _ = strconv.ParseUint(dev, 10, 64)
			s.ino, _ = strconv.ParseUint(ino, 10, 64)
			r.sockets = append(r.sockets, s)
			continue
		}
		r.said[key] = value
	}
	return r
}

// probe runs the checks that need a container, in one that is like the program's.
func (l *Launcher) probe(ctx context.Context, spec Spec) (report, error) {
	l.sweep(ctx, spec.Node, spec.Scope, false)
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	held := 0
	var lines []string
	p, err := l.start(ctx, spec.probe(func(_, line string) {
		if held += len(line) + 1; held <= probeOutput {
			lines = append(lines, line)
		}
	}), engine.RoleProbe)
	if err != nil {
		return report{}, err
	}
	exit := p.Wait()
	r := parseProbe(lines)
	if r.said["end"] == "" {
		return r, l.broken(ctx, spec, r, exit)
	}
	l.remark(spec, r)
	return r, together(l.judgeSockets(spec, r), l.judgePython(spec, r), judgeFiles(spec, r), judgeGPUs(spec, r))
}

// broken says why a probe did not come to its end.
func (l *Launcher) broken(ctx context.Context, spec Spec, r report, exit launch.Exit) error {
	how := exit.String()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		how = fmt.Sprintf("it was stopped after %s", probeLimit)
	}
	_, listing := r.said["gpu-list"]
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case exit.Reason == reasonRestarted:
		return problem("assign the task again", "the check in a container of image %s did not come to its end: %w", spec.Image, engine.ErrRestarted)
	case exit.Reason == reasonLost:
		return problem("see whether it answers (docker info)", "the check in a container of image %s did not come to its end: %w", spec.Image, engine.ErrSilent)
	case r.said["begin"] == "" && (exit.ExitCode == 126 || exit.ExitCode == 127):
		l.logger(spec).Warn("the image has no shell: not checked what a program in it could use", "image", spec.Image)
		return nil
	case listing && r.said["gpu-exit"] == "":
		return problem("see whether it answers on the host, and restart the machine if not", "nvidia-smi gave no answer in a container: %s", how)
	}
	return problem("see what docker run makes of the image", "the check in a container of image %s did not come to its end: %s", spec.Image, how)
}

// probe is the Spec of a check: the same image, user, mounts, limits, devices and GPUs.
func (s Spec) probe(line func(stream, line string)) Spec {
	p := s
	p.Name, p.Incarnation, p.Network, p.WorkDir = "", newIncarnation(), "", "/"
	p.BridgeDir, p.Spill, p.Front = "", "", nil // may not be there yet
	p.Line, p.LogFile, p.LogTail, p.Grace = line, "", -1, time.Second
	data, model, program, gpus := "", "", "", ""
	if s.DataDir != "" {
		data = engine.DataDir
	}
	if s.ModelDir != "" {
		model = engine.ModelDir
	}
	if !s.custom() {
		program = s.programPath()
	}
	if s.GPUs != "" {
		gpus = "gpus"
	}
	module, _ := launch.Framework(s.Platform)
	p.Entrypoint = []string{"/bin/sh", "-c"}
	p.Cmd = []string{probeScript, "probe", probePython, s.interpreter(), data, model, program, module, gpus}
	for _, text := range s.Mounts {
		if m, err := parseMount(text); err == nil {
			p.Cmd = append(p.Cmd, m.target)
		}
	}
	return p
}

// userAndGroup is how a probe names a file's owner.
var userAndGroup = regexp.MustCompile(`^[0-9]{1,10}:[0-9]{1,10}$`)

var pythonName = regexp.MustCompile(`^python[0-9.]*$`)

// interpreter is the Python that runs the program, as far as the command tells.
func (s Spec) interpreter() string {
	if words := append(append([]string{}, s.Entrypoint...), s.Cmd...); len(words) > 0 && pythonName.MatchString(path.Base(words[0])) {
		return words[0]
	}
	return "python3"
}

// judgeSockets refuses mounts that bring in an engine's socket by a way that only the host sees, such as a link.
func (l *Launcher) judgeSockets(spec Spec, r report) error {
	var errs []error
	refused := map[string]bool{}
	for _, s := range r.sockets {
		name := path.Base(s.path)
		known := name == "docker.sock" || name == "podman.sock" || name == "containerd.sock"
		if (known || sameSocket(l.engine.DaemonHost(), s.dev, s.ino)) && !refused[s.target] {
			refused[s.target] = true
			errs = append(errs, errSocket(spec.sourceOf(s.target)))
		}
	}
	return together(errs...)
}

// sourceOf returns what the user mounts at a target.
func (s Spec) sourceOf(target string) string {
	for _, text := range s.Mounts {
		if m, err := parseMount(text); err == nil && m.target == target {
			return m.source
		}
	}
	return target
}

// sameSocket reports whether a socket that a program sees is the engine's.
func sameSocket(host string, dev, ino uint64) bool {
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "unix" {
		return false
	}
	info, err := os.Stat(u.Path)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Dev == dev && stat.Ino == ino
}

// hasOriginal reports whether the program's client is the original's.
func (s Spec) hasOriginal(r report) bool {
	return s.Client == launch.ClientOriginal || s.Client != launch.ClientOwn && r.said["package"] == packageOriginal
}

func (l *Launcher) judgePython(spec Spec, r report) error {
	if spec.hasOriginal(r) {
		return nil
	}
	interpreter := spec.interpreter()
	base := engine.ImagePYT
	if strings.EqualFold(spec.Platform, "TF") {
		base = engine.ImageTF
	}
	base = repository(base)
	help := fmt.Sprintf("install it there with pip, or base the image on %s (docs/operations/images.md)", base)
	switch {
	case r.said["python-missing"] != "" && spec.custom():
		l.logger(spec).Info("the image has no such Python: not checked whether the swarmlearning package is there", "image", spec.Image, "python", interpreter)
		return nil
	case r.said["python-missing"] != "":
		return problem(fmt.Sprintf("base the image on %s, or name its command with --ml-cmd", base), "image %s has no %s", spec.Image, interpreter)
	case r.said["package"] == "":
		return problem("see that it runs in the image", "%s does not work in image %s", interpreter, spec.Image)
	case r.said["package"] == packageNone:
		return problem(help, "image %s lacks the Python package swarmlearning (for its %s)", spec.Image, interpreter)
	case r.said["package"] == packageOurs:
		return nil
	}
	maker := "another maker's"
	if r.said["package"] == packageOriginal { // which --ml-client swarmlearning does not want
		maker = "the original's"
	}
	where := oneLine(r.said["package-at"])
	if strings.HasPrefix(where, engine.ModelDir+"/") {
		return problem("move it out of the model directory", "the program would import %s Python package swarmlearning, in %s", maker, where)
	}
	return problem("take it out and this project's in: "+help, "image %s has %s Python package swarmlearning, in %s, which the program would import", spec.Image, maker, where)
}

func judgeFiles(spec Spec, r report) error {
	var errs []error
	runAs := func(key string) string {
		if owner := r.said["owner-"+key]; userAndGroup.MatchString(owner) && owner != spec.User && !strings.HasPrefix(owner, "0:") {
			return ", or run as its owner with --ml-user " + owner
		}
		return ""
	}
	if r.said["data"] == "no" {
		errs = append(errs, problem("chmod -R o+rX "+spec.DataDir+runAs("data"), "data directory %s can not be read by user %s", spec.DataDir, spec.User))
	}
	if r.said["model"] == "no" {
		errs = append(errs, problem("chmod o+rwx "+spec.ModelDir+runAs("model"), "model directory %s can not be written by user %s", spec.ModelDir, spec.User))
	}
	switch r.said["program"] {
	case "missing":
		errs = append(errs, problem("put it there, or correct --model-program", "program %s does not exist in the container", spec.programPath()))
	case "no":
		errs = append(errs, problem("chmod o+r it"+runAs("program")+", and see that it is a file", "program %s can not be read by user %s", spec.programPath(), spec.User))
	}
	return together(errs...)
}

// remark says what may be meant so.
func (l *Launcher) remark(spec Spec, r report) {
	log := l.logger(spec)
	if name := r.said["data-unreadable"]; name != "" {
		log.Warn("a file in the data directory can not be read by the program's user: chmod -R o+rX, or change --ml-user",
			"data_dir", spec.DataDir, "file", oneLine(name), "user", spec.User)
	}
	if module, remedy := launch.Framework(spec.Platform); r.said["framework"] == "no" && !spec.AnyFramework {
		log.Warn("the image lacks the platform's framework: if the program needs it install it there, or change --ml-image or --sl-platform",
			"image", spec.Image, "module", module, "install", remedy)
	}
	// df: file system, KiB in all, used, free, …
	if fields := strings.Fields(r.said["shm"]); len(fields) > 3 {
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err == nil && kib < spec.ShmSize>>10 {
			log.Warn("the program's /dev/shm is smaller than asked for", "size", size(kib<<10), "asked", size(spec.ShmSize))
		}
	}
	log.Debug("checked a container like the program's", "image", spec.Image, "python", r.said["python"], "gpus", len(r.gpus))
}
