package identity

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/filelock"
)

const (
	ownerFile   = "node.json"
	lockFile    = "lock"
	swarmIDFile = "swarm-id"
)

// swarmIDLen is the length of a swarm ID: 32 lower-case hexadecimal digits.
const swarmIDLen = 32

// StateDir is a locked state directory: as long as it is open, no other process can open it.
type StateDir struct {
	// Path is the directory.
	Path string
	lock *filelock.Lock
}

type owner struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// OpenStateDir makes the directory if needed (0700), locks it, and checks that it belongs to this node, which it
// records when the directory is new. The caller closes it. The lock dies with the process, however it ends.
func OpenStateDir(path, name string, role Role) (*StateDir, error) {
	if err := naming.CheckNode(name); err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := PrivateDir(path); err != nil {
		return nil, err
	}
	d := &StateDir{Path: path}
	lock, err := filelock.Take(filepath.Join(path, lockFile))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("state directory %s is in use by another process%s: stop it, or use --state-dir or --name", path, d.holder())
	}
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	d.lock = lock
	if err := d.claim(name, role); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return d, nil
}

func (d *StateDir) claim(name string, role Role) error {
	path := filepath.Join(d.Path, ownerFile)
	raw, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = json.Marshal(owner{Name: name, Role: role})
		if err == nil {
			err = atomicfile.New(path, append(raw, '\n'), 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("claim state directory: %w", err)
	}
	var o owner
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("claim state directory: %s is damaged: restore it, or delete %s to make a new node", path, d.Path)
	}
	if o.Name != name || o.Role != role {
		return fmt.Errorf("state directory %s belongs to node %s (role %s), not to %s (role %s): use --state-dir or --name", d.Path, o.Name, o.Role, name, role)
	}
	// Only a help for the reader of the next one's error, so failing to write it is no reason to stop.
	_ = d.lock.Note(strconv.Itoa(os.Getpid()) + "\n")
	return nil
}

// OwnerOf returns whose state directory this is. It takes no lock.
func OwnerOf(dir string) (name string, role Role, err error) {
	path := filepath.Join(dir, ownerFile)
	raw, err := readPrivate(path)
	if err != nil {
		return "", "", err
	}
	var o owner
	if err := json.Unmarshal(raw, &o); err != nil {
		return "", "", fmt.Errorf("%s is damaged", path)
	}
	return o.Name, o.Role, nil
}

func (d *StateDir) holder() string {
	raw, err := readPrivate(filepath.Join(d.Path, lockFile))
	pid := strings.TrimSpace(string(raw))
	if err != nil || pid == "" {
		return ""
	}
	return " (pid " + pid + ")"
}

// Close unlocks the directory.
func (d *StateDir) Close() error { return d.lock.Close() }

// ValidSwarmID reports whether s is a swarm ID: 32 lower-case hexadecimal digits.
func ValidSwarmID(s string) error {
	if len(s) != swarmIDLen || strings.ToLower(s) != s {
		return fmt.Errorf("swarm ID %.40q is not valid: want %d lower-case hexadecimal digits", s, swarmIDLen)
	}
	if _, err := hex.DecodeString(s); err != nil {
		return fmt.Errorf("swarm ID %q is not valid: want %d lower-case hexadecimal digits", s, swarmIDLen)
	}
	return nil
}

// PinnedSwarmID returns the swarm ID pinned in the directory, "" if none is yet.
func PinnedSwarmID(dir string) (string, error) {
	path := filepath.Join(dir, swarmIDFile)
	raw, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read pinned swarm ID: %w", err)
	}
	id := strings.TrimSpace(string(raw))
	if err := ValidSwarmID(id); err != nil {
		return "", fmt.Errorf("read pinned swarm ID: %s is damaged: %w", path, err)
	}
	return id, nil
}

// PinSwarmID pins the swarm ID in the directory, for good. Pinning the same again is no error; pinning another is
// one that names both.
func PinSwarmID(dir, id string) error {
	if err := ValidSwarmID(id); err != nil {
		return fmt.Errorf("pin swarm ID: %w", err)
	}
	have, err := PinnedSwarmID(dir)
	if err != nil {
		return err
	}
	switch have {
	case id:
		return nil
	case "":
		if err := atomicfile.New(filepath.Join(dir, swarmIDFile), []byte(id+"\n"), 0o600); err != nil {
			return fmt.Errorf("pin swarm ID: %w", err)
		}
		return nil
	default:
		return fmt.Errorf("state directory %s belongs to swarm %s, not to swarm %s: use another --state-dir or --name, or delete it to leave the old swarm", dir, have, id)
	}
}
