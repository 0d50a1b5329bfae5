package container

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	defaultPids  = 4096
	defaultShm   = 1 << 30 // bytes
	defaultGrace = 10 * time.Second
	maxIsolation = 256 // bytes of the text that Isolation returns: what the swarm takes
	maxOpening   = 23  // bytes of one opening's value where there is no room for all
)

// Spec says what to run and how it is isolated. Paths on the host are absolute.
type Spec struct {
	// Node, Platform ("PYT" or "TF") and Scope become labels that a later daemon finds the container by. Scope "" is
	// engine.OSScope.
	Node, Platform, Scope string
	// AnyFramework: nobody has named a platform, and the user chose what the container runs. An image that lacks Platform's framework is no warning.
	AnyFramework bool
	// Incarnation names this incarnation of the program, such as the record that the daemon keeps of it; "": a random one.
	Incarnation string
	// Name is the container's name, "": the engine's choice.
	Name  string
	Image string
	// Entrypoint and Cmd replace those of the image, as with docker run. Both nil: python3 -u Program Args….
	Entrypoint, Cmd []string
	// Program is a file of the model directory, relative to it, or an absolute path inside the container. Args are its arguments.
	Program string
	Args    []string
	// Client is the package by which the program speaks with its node: launch.ClientAuto (or empty), ClientOwn or ClientOriginal.
	Client string
	// Front are words before the container's command, that of the image too: a program that runs it, and its arguments.
	Front []string
	// WorkDir is a path inside the container, "": engine.ModelDir.
	WorkDir string
	// Env holds K=V beside what the launcher sets (HOME, TMPDIR, USER, DATA_DIR, …). It wins, but over SWARM_BRIDGE_DIR.
	Env []string
	// DataDir, ModelDir, BridgeDir and Spill lie on the host; "": none. Spill may also be a volume's name.
	DataDir, ModelDir, BridgeDir, Spill string
	// Mounts are SRC:DST[:ro], SRC being a path on the host or the name of a volume that exists.
	Mounts []string
	// User is numeric: UID or UID:GID. Without a group it is the user's own on this host, else the one of the same number.
	// "": this process's user and group.
	User string
	// GPUs is "" (none), "all", or a list of numbers or UUIDs, such as "0,2".
	GPUs string
	// Network is the name of the engine's network that the program may use; "" or "none": no network.
	Network string
	// LeadsOut: it is known that the network, or what the engine gives with it, leads elsewhere.
	LeadsOut bool
	// Hostname is the container's, "": one made of the node's name, or in the host's network the host's. IP is its address in Network, which must be a user's; "": the engine's choice.
	Hostname, IP string
	// Hosts are NAME:IP that the program finds without a DNS.
	Hosts []string
	// Own are directories inside the container that are its alone, may be written to, and go with it.
	Own []string
	// NoInit leaves out the init process that reaps for the program, where the engine has none (ErrNoInit).
	NoInit bool
	// NoHealth leaves out what the image has the engine run to see how the program is.
	NoHealth bool
	// Detached has the engine keep the grace: who ends the program may not be who started it.
	Detached bool
	// DNS are servers. Labels are K=V beside ours.
	DNS, Labels []string
	Memory      int64   // bytes, 0: no limit
	CPUs        float64 // 0: no limit
	Pids        int64   // 0: 4096
	ShmSize     int64   // bytes of /dev/shm, 0: 1 GiB
	// Devices are HOSTPATH[:PATH[:rwm]], as for docker run.
	Devices, GroupAdd, CapAdd, SecurityOpt []string
	IPC                                    string // "": private
	Privileged                             bool

	// Line, LogTail and LogFile are as in launch.Spec. LogFile is this process's path.
	Line    func(stream, line string)
	LogTail int
	LogFile string
	// Grace is how long the program has between SIGTERM and SIGKILL when Start's context ends; 0: 10 s.
	Grace time.Duration
	Log   *slog.Logger // nil: the Launcher's
	// AwayHelp is said when the engine does not answer: what to do about it, if there is more to it than waiting.
	AwayHelp string

	// Delivered is called with the time of the last line that was delivered, by the engine's clock, each time that there are more of them: at
	// most forty times a second, from one goroutine at a time. Kept to the nanosecond it is LogSince for a later Adopt. Nil: nobody keeps it.
	Delivered func(to time.Time)
	// LogSince is for Adopt: the time of the last line that was delivered. Output goes on behind it. Zero: from the start.
	LogSince time.Time
}

// WayOut are the words behind the name of a network that leads elsewhere.
const WayOut = ", with a way out"

// Isolation says what keeps the program in, such as "container, no network", and what opens it, such as "container, open:
// network lab, mount /scratch". One line, for logs and for the other peers. Where there is no room for all of it openings are
// counted, never left out.
func (s Spec) Isolation() string {
	words := s.isolationText(func(open []string, what string, values []string) []string {
		for _, v := range values {
			open = append(open, what+" "+v)
		}
		return open
	})
	if len(words) <= maxIsolation {
		return words
	}
	return s.isolationText(func(open []string, what string, values []string) []string {
		switch v := strings.Join(values, ""); {
		case len(values) == 0:
			return open
		case len(values) == 1 && len(v) <= maxOpening:
			return append(open, what+" "+v)
		case len(values) == 1:
			return append(open, what+" "+text.Clip(v, maxOpening))
		}
		return append(open, fmt.Sprintf("%s (%d of them)", what, len(values)))
	}) + ", …"
}

// isolationText puts the words together; add appends the openings of one kind.
func (s Spec) isolationText(add func(open []string, what string, values []string) []string) string {
	words := "container"
	var open []string
	if s.networkMode() == "none" {
		words += ", no network"
	} else {
		open = add(open, "network", []string{s.Network})
		if s.LeadsOut {
			open[len(open)-1] += WayOut
		}
	}
	var mounts []string
	for _, m := range s.Mounts {
		if p, err := parseMount(m); err == nil && p.readOnly {
			mounts = append(mounts, p.source+" (read-only)")
		} else if err == nil {
			mounts = append(mounts, p.source)
		} else {
			mounts = append(mounts, m)
		}
	}
	open = add(open, "mount", mounts)
	open = add(open, "device", s.Devices)
	open = add(open, "capability", s.CapAdd)
	open = add(open, "security option", s.SecurityOpt)
	if s.ipcMode() != "private" && s.IPC != "none" {
		open = add(open, "ipc", []string{s.IPC})
	}
	if s.Privileged {
		open = append(open, "privileged")
	}
	if len(open) > 0 {
		words += ", open: " + strings.Join(open, ", ")
	}
	return text.Printable(words, '?')
}

func (s Spec) networkMode() string {
	if s.Network == "" {
		return "none"
	}
	return s.Network
}

func (s Spec) ipcMode() string {
	if s.IPC == "" {
		return "private"
	}
	return s.IPC
}

// custom reports whether the user chose what the container runs.
func (s Spec) custom() bool { return s.Entrypoint != nil || s.Cmd != nil }

// programPath is the program's inside the container.
func (s Spec) programPath() string {
	if path.IsAbs(s.Program) {
		return path.Clean(s.Program)
	}
	return path.Join(engine.ModelDir, s.Program)
}

// complete returns the Spec with its defaults, or all that is wrong with it.
func (s Spec) complete() (Spec, error) {
	errs := []error{s.checkPaths(), s.checkLimits(), s.checkWords()}
	if s.Scope == "" {
		s.Scope = engine.OSScope()
	}
	if s.Incarnation == "" {
		s.Incarnation = newIncarnation()
	}
	if s.Pids == 0 {
		s.Pids = defaultPids
	}
	if s.ShmSize == 0 {
		s.ShmSize = defaultShm
	}
	if s.Grace <= 0 {
		s.Grace = defaultGrace
	}
	if s.WorkDir == "" {
		s.WorkDir = engine.ModelDir
		if s.ModelDir == "" {
			s.WorkDir = tmpDir
		}
	}
	var err error
	if s.User, err = completeUser(s.User); err != nil {
		errs = append(errs, err)
	}
	if s.GPUs, err = completeGPUs(s.GPUs); err != nil {
		errs = append(errs, err)
	}
	return s, together(errs...)
}

func (s Spec) checkPaths() error {
	var errs []error
	for _, dir := range []struct{ flag, path string }{{"--data-dir", s.DataDir}, {"--model-dir", s.ModelDir}, {"bridge directory", s.BridgeDir}} {
		if dir.path != "" && !filepath.IsAbs(dir.path) {
			errs = append(errs, problem("give its absolute path", "%s %s is relative", dir.flag, dir.path))
		}
	}
	if s.Spill != "" && !filepath.IsAbs(s.Spill) && !volumeName.MatchString(s.Spill) {
		errs = append(errs, problem("give an absolute path or the name of a volume", "spill directory %s is neither", s.Spill))
	}
	if s.WorkDir != "" && !path.IsAbs(s.WorkDir) {
		errs = append(errs, problem("give an absolute path inside the container", "--ml-w %s is relative", s.WorkDir))
	}
	switch {
	case s.custom():
	case s.Program == "":
		errs = append(errs, problem("name a file of the model directory with --model-program, or a command with --ml-cmd", "no program is given"))
	case !path.IsAbs(s.Program) && !filepath.IsLocal(s.Program):
		errs = append(errs, problem("name a file in it, or an absolute path inside the container", "program %s leaves the model directory", s.Program))
	case !path.IsAbs(s.Program) && s.ModelDir == "":
		errs = append(errs, problem("name its directory with --model-dir", "program %s has no model directory", s.Program))
	}
	_, err := s.mounts()
	errs = append(errs, err)
	for _, d := range s.Devices {
		if _, err := parseDevice(d); err != nil {
			errs = append(errs, err)
		}
	}
	return together(errs...)
}

func (s Spec) checkLimits() error {
	var errs []error
	if s.Memory < 0 || s.Pids < 0 || s.ShmSize < 0 {
		errs = append(errs, problem("leave it out for no limit", "a limit is negative"))
	}
	if s.CPUs < 0 || math.IsNaN(s.CPUs) || s.CPUs > 1<<20 {
		errs = append(errs, problem("give a number of CPUs such as 1.5", "--ml-cpus %v is out of range", s.CPUs))
	}
	return together(errs...)
}

func (s Spec) checkWords() error {
	var errs []error
	if s.Image == "" {
		errs = append(errs, problem("name one with --ml-image or --sl-platform", "no image is given"))
	}
	if s.Node == "" {
		errs = append(errs, errors.New("no node is given"))
	}
	for _, kv := range s.Env {
		if k, _, ok := strings.Cut(kv, "="); !ok || k == "" || strings.ContainsRune(kv, 0) {
			errs = append(errs, problem("write KEY=VALUE", "environment option %q has no key or no value", kv))
		}
	}
	for _, list := range [][]string{s.Entrypoint, s.Cmd, s.Args, s.Devices, s.GroupAdd, s.CapAdd, s.SecurityOpt, {s.Image, s.Network, s.IPC, s.WorkDir, s.Program}} {
		if slices.ContainsFunc(list, func(v string) bool { return strings.ContainsRune(v, 0) }) {
			errs = append(errs, problem("leave it out", "an option holds a NUL character"))
		}
	}
	return together(errs...)
}

var numericUser = regexp.MustCompile(`^([0-9]{1,10})(?::([0-9]{1,10}))?$`)

// completeUser returns UID:GID.
func completeUser(s string) (string, error) {
	if s == "" {
		return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()), nil
	}
	m := numericUser.FindStringSubmatch(s)
	if m == nil {
		return "", problem("give numbers, such as 1000:1000 (see the command id)", "--ml-user %s is not UID[:GID]", s)
	}
	if m[2] != "" {
		return s, nil
	}
	// An engine would take the image's word for the group, or root's.
	if u, err := user.LookupId(m[1]); err == nil {
		return m[1] + ":" + u.Gid, nil
	}
	return m[1] + ":" + m[1], nil
}

// ids splits UID:GID, which completeUser made.
func ids(s string) (uid, gid int) {
	u, g, _ := strings.Cut(s, ":")
	uid, _ = strconv.Atoi(u)
	gid, _ = strconv.Atoi(g)
	return uid, gid
}

var gpuName = regexp.MustCompile(`^([0-9]{1,4}(:[0-9]{1,4})?|(GPU|MIG)-[0-9A-Za-z/-]{1,100})$`)

// completeGPUs returns "", "all" or a list without spaces.
func completeGPUs(s string) (string, error) {
	s = strings.TrimSpace(s)
	if strings.EqualFold(s, "all") {
		return "all", nil
	}
	if s == "" {
		return "", nil
	}
	list := strings.Split(s, ",")
	for i, g := range list {
		list[i] = strings.TrimSpace(g)
		if !gpuName.MatchString(list[i]) {
			return "", problem("give all, or numbers or UUIDs with commas between them, such as 0,2", "--gpu %s: %q is no GPU", s, list[i])
		}
		if slices.Contains(list[:i], list[i]) {
			return "", problem("name each GPU once", "--gpu %s names %s twice", s, list[i])
		}
	}
	return strings.Join(list, ","), nil
}

// size writes bytes as people do.
func size(n int64) string {
	for _, u := range []struct {
		unit string
		of   int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.of {
			return strconv.FormatFloat(math.Round(float64(n)/float64(u.of)*10)/10, 'f', -1, 64) + " " + u.unit
		}
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
