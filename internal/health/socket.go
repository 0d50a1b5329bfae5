package health

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof" //nolint:gosec // nobody serves the mux that it registers with
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// SocketName is the health socket's name in a state directory.
	SocketName = "health.sock"
	// maxSocketPath is the longest path of a unix socket on Linux, its final zero byte not counted.
	maxSocketPath = 107
	// answerTime bounds one request, at both ends.
	answerTime = 5 * time.Second
	// maxReport bounds the answer that is read, in bytes.
	maxReport = 64 << 10
)

// ErrNoDaemon is returned by Read when no daemon runs with the state directory.
var ErrNoDaemon = errors.New("no swarmd runs with this state directory")

// SocketPath is where the daemon of a state directory serves its health: health.sock in it or, where that path is longer
// than a unix socket's may be, a name made from the directory's in the runtime directory of the directory's owner:
// /run/swarmd for root, /tmp/swarmd-UID for others. The environment has no say, so that daemon and asker agree.
func SocketPath(stateDir string) (string, error) {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return "", fmt.Errorf("find health socket: %w", err)
	}
	path := filepath.Join(dir, SocketName)
	if len(path) <= maxSocketPath {
		return path, nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("find health socket: %w", err)
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(runtimeDir(ownerOf(info)), "health-"+hex.EncodeToString(sum[:8])+".sock"), nil
}

func runtimeDir(uid uint32) string {
	if uid == 0 {
		return "/run/swarmd"
	}
	return "/tmp/swarmd-" + strconv.FormatUint(uint64(uid), 10)
}

func ownerOf(info fs.FileInfo) uint32 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Uid
	}
	return 0
}

// listen binds the health socket, mode 0600. The caller holds the state directory's lock, so whatever stands at the path
// was left by a process that is gone.
func listen(stateDir string) (net.Listener, string, error) {
	path, err := SocketPath(stateDir)
	if err != nil {
		return nil, "", err
	}
	if filepath.Base(path) != SocketName {
		if err := makeRuntimeDir(filepath.Dir(path)); err != nil {
			return nil, "", err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("serve health: %w", err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, "", fmt.Errorf("serve health: %w", err)
	}
	// The directory is the owner's alone, so nobody could come before the mode is set.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, "", fmt.Errorf("serve health: %w", errors.Join(err, ln.Close()))
	}
	return ln, path, nil
}

// makeRuntimeDir makes the directory or takes one that is ours alone: others may write beside it.
func makeRuntimeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("serve health: %w", err)
	}
	return checkRuntimeDir(dir, uint32(os.Geteuid())) //nolint:gosec // a uid
}

func checkRuntimeDir(dir string, uid uint32) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("find health socket: %w", err)
	}
	if !info.IsDir() || ownerOf(info) != uid || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("find health socket: %s is not a directory that only uid %d may write to: remove it, or give a shorter --state-dir", dir, uid)
	}
	return nil
}

// handler answers GET /health with the report: status 200 while the node is healthy, else 503. Under /debug/pprof/ it has the
// process's profiles, all but its command line.
func handler(report func() Report) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		r := report()
		w.Header().Set("Content-Type", "application/json")
		if !r.Healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		_ = enc.Encode(r) // the asker is gone: nobody to tell
	})
	return mux
}

// Read asks the daemon of a state directory for its health. It fails with [ErrNoDaemon] in the chain when none runs.
func Read(ctx context.Context, stateDir string) (Report, error) {
	path, err := SocketPath(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return Report{}, ErrNoDaemon
	}
	if err != nil {
		return Report{}, err
	}
	if dir := filepath.Dir(path); filepath.Base(path) != SocketName {
		info, err := os.Stat(stateDir)
		if err != nil {
			return Report{}, fmt.Errorf("find health socket: %w", err)
		}
		if err := checkRuntimeDir(dir, ownerOf(info)); errors.Is(err, fs.ErrNotExist) {
			return Report{}, ErrNoDaemon
		} else if err != nil {
			return Report{}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://swarmd/health", nil)
	if err != nil {
		return Report{}, fmt.Errorf("read health: %w", err)
	}
	res, err := (&http.Client{Transport: t}).Do(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return Report{}, ErrNoDaemon
	case errors.Is(err, fs.ErrPermission):
		return Report{}, fmt.Errorf("health socket %s may not be opened by this user: run as its owner", path)
	case err != nil:
		return Report{}, fmt.Errorf("read health from %s: %w", path, errors.Unwrap(err))
	}
	defer res.Body.Close()
	r, err := parse(res.Body)
	if err != nil {
		return Report{}, fmt.Errorf("read health from %s: %w", path, err)
	}
	return r, nil
}

// parse reads a report, and maxReport bytes at most.
func parse(body io.Reader) (r Report, err error) {
	err = json.NewDecoder(io.LimitReader(body, maxReport)).Decode(&r)
	return r, err
}
