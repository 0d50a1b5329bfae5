// Package invited is what a host does with an invitation: it reads the line, keeps it in the state directory of a component, so that a
// restart needs none, and finds the SPIRE agent that joined with it, which all components of the host use.
package invited

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/filelock"
	"github.com/swarmd/swarmd/internal/invitation"
	"github.com/swarmd/swarmd/internal/registry"
)

const (
	lineFile = "invitation"  // in a component's state directory
	agentDir = "spire-agent" // likewise; where a component's own agent always is
	// maxBeside bounds how many directories beside a component's own are looked at.
	maxBeside = 512
)

// Read reads an invitation from a file, or from stdin if the file is "-"; stdin may be nil. The error is one sentence.
func Read(file string, stdin io.Reader) (*invitation.Invitation, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--invite: %w", err)
		}
		defer f.Close()
		from = f
	}
	if from == nil {
		return nil, errors.New("--invite -: there is no standard input")
	}
	raw, err := io.ReadAll(io.LimitReader(from, invitation.MaxLine+1))
	if err != nil {
		return nil, fmt.Errorf("--invite %s: %w", file, err)
	}
	if len(raw) == 0 {
		return nil, fmt.Errorf("--invite %s: it is empty: give the line that `swarmctl invite` printed", file)
	}
	i, err := invitation.Decode(string(raw))
	if err != nil {
		return nil, fmt.Errorf("--invite %s: %w", file, err)
	}
	return i, nil
}

// Keep writes an invitation into a component's state directory, which it makes with mode 0700, for its owner alone.
func Keep(stateDir string, i *invitation.Invitation) error {
	line, err := i.Encode()
	if err != nil {
		return err
	}
	if err := identity.PrivateDir(stateDir); err != nil {
		return err
	}
	if err := atomicfile.Replace(filepath.Join(stateDir, lineFile), []byte(line+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep invitation: %w", err)
	}
	return nil
}

// Kept returns the invitation that a component has kept, nil if it has none.
func Kept(stateDir string) (*invitation.Invitation, error) {
	path := filepath.Join(stateDir, lineFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there need be none
	}
	return Read(path, nil)
}

// Beside returns the state directories in dir that have kept an invitation for a role, sorted. What can't be read counts as none, and so
// does what others may write.
func Beside(dir string, role identity.Role) []string {
	var found []string
	for _, d := range subdirs(dir) {
		if !private(d) {
			continue
		}
		if i, err := Kept(d); err == nil && i != nil {
			if _, ok := i.Of(role); ok {
				found = append(found, d)
			}
		}
	}
	return found
}

func subdirs(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(maxBeside) // what was read before an error
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(out)
	return out
}

// AgentDir returns the directory of the SPIRE agent by which a component with this state directory gets its identity: its own, unless
// another component of the host runs one, or has run one, that joined with the same invitation. A join token is good for one agent.
// Components are looked for beside it, in the directories nodes, and among those of the scope that run.
func AgentDir(stateDir string, i *invitation.Invitation, scope string, nodes ...string) string {
	own := filepath.Join(stateDir, agentDir)
	if spire.HasJoined(own) {
		return own
	}
	var candidates []string
	for _, dir := range append(nodes, filepath.Dir(stateDir)) {
		candidates = append(candidates, subdirs(dir)...)
	}
	if running, err := registry.List(scope); err == nil {
		for _, e := range running {
			candidates = append(candidates, e.StateDir)
		}
	}
	line, err := i.Encode()
	if err != nil {
		return own
	}
	for _, used := range []func(agent string) bool{spire.HasJoined, held} {
		for _, dir := range candidates {
			if agent := filepath.Join(dir, agentDir); agent != own && private(dir) && keptLine(dir) == line && used(agent) {
				return agent
			}
		}
	}
	return own
}

// private reports whether nobody but this process's user can have put anything into a directory.
func private(dir string) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// keptLine is the line that a component has kept, "" for none.
func keptLine(stateDir string) string {
	i, err := Kept(stateDir)
	if err != nil || i == nil {
		return ""
	}
	line, _ := i.Encode() // it was read from one
	return line
}

// Open calls open with the directory that find returns. Where that fails and find has another one by then it is called once more: two
// components of a host that start at the same time may both have found that none has joined yet.
func Open(find func() string, open func(agentDir string) (identity.Provider, error)) (identity.Provider, error) {
	dir := find()
	source, err := open(dir)
	if err != nil {
		if again := find(); again != dir {
			return open(again)
		}
	}
	return source, err
}

// held reports whether a process runs an agent in the directory.
func held(agent string) bool {
	path := filepath.Join(agent, "lock")
	if _, err := os.Lstat(path); err != nil {
		return false // to look must not make it
	}
	lock, err := filelock.Take(path)
	if err == nil {
		_ = lock.Close()
	}
	return errors.Is(err, filelock.ErrLocked)
}
