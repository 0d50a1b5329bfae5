// Package local runs whole swarms on this machine: `swarmctl local run` trains a program across peers, `swarmctl local
// up` keeps a swarm for programs that are started by hand.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/swci/cluster"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// What bounds --peers and --sns is one machine.
const (
	maxPeers = 128
	maxSNs   = 50
)

// platforms has what an SL calls each framework: to it those beside TensorFlow differ by the Python that is looked for alone.
var platforms = map[string]string{"PYT": "PYT", "TF": "TF", "HF": "PYT", "SKLEARN": "PYT", "NUMPY": "PYT"}

// API is what a run asks the swarm while it goes on.
type API interface {
	GetSwarm(ctx context.Context) (*swarmv1.GetSwarmResponse, error)
	ListContracts(ctx context.Context) (*swarmv1.ListContractsResponse, error)
	GetContractStatus(ctx context.Context, name string) (*swarmv1.GetContractStatusResponse, error)
	CreateContract(ctx context.Context, name string, rules *swarmv1.Rules) (*swarmv1.ContractView, error)
	ReadLedger(ctx context.Context, w io.Writer) (int64, error)
	GetHistory(ctx context.Context, q *swarmv1.GetHistoryRequest) (*swarmv1.GetHistoryResponse, error)
}

// Connect opens the API at the given addresses with the given identity; done is never nil.
type Connect func(ctx context.Context, sns []string, identity string) (api API, done func(), err error)

// Say is where a dashboard tells its newest address, and anything else.
type Say struct {
	Address, Log func(string)
}

// Host is what a run may touch of the outside world.
type Host struct {
	Stdout  io.Writer
	Stderr  io.Writer
	Getenv  func(string) string
	Environ []string // handed on to daemons and programs
	Now     func() time.Time
	TTY     bool       // Stderr is a terminal
	Width   func() int // of the terminal
	Connect Connect
	// Dashboard serves the swarm's dashboard until stop, and tells where it is and what becomes of it; pages that are open at the end say
	// that the run has ended, and after. A run without --dashboard needs none.
	Dashboard func(ctx context.Context, sns []string, identity, after string, say Say) (stop func(), err error)
}

// RunConfig is what `local run` was asked for.
type RunConfig struct {
	Peers     int
	MinPeers  int // 0 means all
	SNs       int
	Spire     bool   // identities come from SPIRE
	Platform  string // a key of platforms
	ModelDir  string
	Program   string   // relative to ModelDir
	Args      []string // of Program, with placeholders
	DataDir   string   // with placeholders; empty: none
	Out       string
	Env       []string // K=V, V with placeholders
	Checkin   string   // check-in mode of programs that choose none; empty: none
	Python    string   // interpreter; empty: find one
	Runtime   string   // of the programs: "process", also if empty, or "docker"
	Image     string   // of the programs' containers; empty: that of the platform
	Swarmd    string   // binary; empty: find it
	Nodes     bool     // SNs and SLs are containers too
	Baseline  bool
	Keep      bool
	Quiet     bool
	Verbose   bool
	JSON      bool
	Dashboard bool          // it is served while peers train
	Strict    bool          // what would be a warning is an error
	Timeout   time.Duration // 0: none
	Package   fs.FS         // the swarmlearning package, for baselines whose Python has none; nil: never needed
}

// check fills defaults, makes paths absolute and returns every problem that shows before anything is started, each in
// one line.
func (c *RunConfig) check(ctx context.Context, h Host) error {
	var bad []error
	add := func(hint, format string, args ...any) {
		bad = append(bad, exit.New(exit.Usage, hint, format, args...))
	}
	if c.Peers < 1 || c.Peers > maxPeers {
		add("", "--peers must be 1 to %d", maxPeers)
	}
	if c.MinPeers == 0 {
		c.MinPeers = c.Peers
	}
	if c.MinPeers < 1 || c.MinPeers > max(c.Peers, 1) {
		add("give --min-peers 1 to the number of --peers", "--min-peers %d can't be met by --peers %d", c.MinPeers, c.Peers)
	}
	for _, w := range c.warnings() {
		if c.Strict {
			add("", "%s", w.Text)
		}
	}
	if c.SNs < 1 || c.SNs > maxSNs {
		add("", "--sns must be 1 to %d", maxSNs)
	}
	if c.Platform = strings.ToUpper(c.Platform); platforms[c.Platform] == "" {
		add("use PYT, TF, HF, SKLEARN or NUMPY", "platform %q is not supported", c.Platform)
	}
	if err := c.checkRuntime(); err != nil {
		bad = append(bad, err)
	}
	for _, kv := range c.Env {
		if k, v, ok := strings.Cut(kv, "="); !ok || k == "" {
			add("", "-e %q must be NAME=VALUE", kv)
		} else if err := checkPlaceholders("-e "+k, v); err != nil {
			bad = append(bad, err)
		}
	}
	bad = append(bad, c.checkArgs()...)
	var missing []string
	for _, o := range []struct{ value, option string }{{c.ModelDir, "--model-dir DIR"}, {c.Program, "--model-program FILE"}, {c.Out, "--out DIR"}} {
		if o.value == "" {
			missing = append(missing, o.option)
		}
	}
	switch n := len(missing); n {
	case 0:
	case 1:
		add("swarmctl help local run lists all options", "%s is missing", missing[0])
	default:
		add("swarmctl help local run lists all options", "%s and %s are missing", strings.Join(missing[:n-1], ", "), missing[n-1])
	}
	bad = append(bad, c.checkPaths()...)
	if len(bad) > 0 {
		return joined(bad)
	}
	var err error
	if c.Swarmd, err = FindSwarmd(c.Swarmd); err != nil {
		bad = append(bad, err)
	}
	if _, err := cluster.FindSpire(); c.Spire && err != nil {
		bad = append(bad, err)
	}
	if c.docker() {
		err = c.checkEngine(ctx, h.Getenv)
	} else if c.Python, err = launch.FindPython(ctx, c.Platform, c.Python, h.Getenv); err != nil {
		err = &exit.Error{Status: exit.Failed, Err: err, Hint: c.otherPlatform(err)}
	}
	if err != nil {
		bad = append(bad, err)
	}
	return joined(bad)
}

// checkArgs returns what is wrong with the program's arguments.
func (c *RunConfig) checkArgs() (bad []error) {
	for _, a := range c.Args {
		if err := checkPlaceholders("--model-program-args", a); err != nil {
			return []error{err}
		}
	}
	if err := launch.CheckArgs(c.programArgs(maxPeers)); err != nil { // the longest
		return []error{exit.New(exit.Usage, "", "--model-program-args: %w", err)}
	}
	return nil
}

// programArgs are the arguments of the program of the peer with index i.
func (c *RunConfig) programArgs(i int) (args []string) {
	for _, a := range c.Args {
		args = append(args, expand(a, i))
	}
	return args
}

// otherPlatform is the remedy when no Python has the framework that was not asked for.
func (c *RunConfig) otherPlatform(err error) string {
	if c.Platform == "PYT" && errors.Is(err, launch.ErrNoneImports) {
		return "--platform is PYT by default; for TensorFlow give TF"
	}
	return ""
}

// checkRuntime completes the runtime and refuses options that another one has.
func (c *RunConfig) checkRuntime() error {
	if c.Runtime = strings.ToLower(c.Runtime); c.Runtime == "" {
		c.Runtime = runtimeProcess
	}
	switch {
	case c.Runtime != runtimeProcess && c.Runtime != runtimeDocker:
		return exit.New(exit.Usage, "use process or docker", "runtime %q is not supported", c.Runtime)
	case c.docker() && c.Python != "":
		return exit.New(exit.Usage, "the image's python3 runs the programs; name another image with --ml-image", "--python is for --runtime process")
	case !c.docker() && c.Nodes:
		return exit.New(exit.Usage, "give both, or neither", "--containers is for --runtime docker")
	case c.Nodes && c.Spire:
		return exit.New(exit.Usage, "leave one of the two out", "--containers has embedded identities only")
	case !c.docker() && c.Image != "":
		return exit.New(exit.Usage, "leave it out, or give --runtime docker", "--ml-image is for --runtime docker")
	}
	return nil
}

func (c *RunConfig) checkPaths() (bad []error) {
	abs := func(p *string) {
		if *p != "" {
			if a, err := filepath.Abs(*p); err == nil {
				*p = a
			}
		}
	}
	abs(&c.ModelDir)
	abs(&c.Out)
	abs(&c.DataDir)
	modelDir := c.ModelDir != ""
	if err := readableDir(c.ModelDir); modelDir && err != nil {
		bad = append(bad, exit.New(exit.Usage, "--model-dir names the folder that holds the program", "model directory: %w", err))
		modelDir = false // what is in it can't be looked at
	}
	switch {
	case c.Program == "":
	case filepath.IsAbs(c.Program) || !filepath.IsLocal(c.Program):
		bad = append(bad, exit.New(exit.Usage, "--model-program is relative to --model-dir", "program %q is not inside the model directory", c.Program))
	case modelDir:
		if f, err := os.Open(filepath.Join(c.ModelDir, c.Program)); err != nil {
			bad = append(bad, exit.New(exit.Usage, "--model-program is relative to --model-dir", "program: %w", err))
		} else {
			_ = f.Close()
		}
	}
	return append(bad, c.checkDataDirs()...)
}

// checkDataDirs returns what is wrong with the peers' data directories.
func (c *RunConfig) checkDataDirs() (bad []error) {
	if err := checkPlaceholders("--data-dir", c.DataDir); err != nil {
		return []error{err}
	}
	for i := range min(max(c.Peers, 0), maxPeers) {
		dir := c.dataDir(i)
		if dir == "" {
			break
		}
		if err := readableDir(dir); err != nil {
			bad = append(bad, exit.New(exit.Usage, "{peer} in --data-dir becomes 0, 1, 2, …; {peer1} becomes 1, 2, 3, …", "data directory of %s: %w", cluster.SLName(i), err))
		}
	}
	return bad
}

// dataDir is the data directory of the peer with index i, or "".
func (c *RunConfig) dataDir(i int) string {
	return expand(c.DataDir, i)
}

func readableDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory", dir)
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ReadDir(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// joined makes one error of several, a line each; the first decides exit code and hint.
func joined(bad []error) error {
	switch len(bad) {
	case 0:
		return nil
	case 1:
		return bad[0]
	}
	var text []string
	for _, err := range bad {
		line := err.Error()
		if hint := exit.Hint(err); hint != "" {
			line += " (" + hint + ")"
		}
		text = append(text, line)
	}
	return exit.New(exit.Code(bad[0]), "", "%s", strings.Join(text, "\n"))
}

// FindSwarmd returns the swarmd binary: the one named, else the one beside this program, else the one in PATH.
func FindSwarmd(named string) (string, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", exit.New(exit.Usage, "--swarmd names the swarmd binary", "find swarmd: %w", err)
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "swarmd")); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath("swarmd"); err == nil {
		return filepath.Abs(path)
	}
	return "", exit.New(exit.Failed, "make builds it; put it beside swarmctl or into PATH, or name it with --swarmd", "swarmd is not found")
}

// notExist reports whether a path is known to be absent.
func notExist(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}
