package component

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// host is what a container's making depends on outside its Spec.
type host struct {
	uid, gid int // the caller's
	stat     func(string) (fileInfo, error)
	readDir  func(string) ([]string, error) // absolute paths
	getenv   func(string) string
	// imageUser is the user that the image says.
	imageUser string
	// isThis reports whether the other nodes reach this host by that address or name.
	isThis func(string) bool
}

type fileInfo struct {
	mode     fs.FileMode
	uid, gid int
}

// Variables of a component's container.
const (
	// inContainer tells a component that it runs in one; internal/launch/start gives it.
	inContainer = "SWARM_IN_CONTAINER"
	// engineSocket tells a component that has the engine's socket where that is on the host.
	engineSocket = "SWARM_ENGINE_SOCKET"
)

// thisHost is the machine that we run on. A launcher in a container, such as a SWOP, does not see the host's files: the engine says what is
// wrong with them. It starts what deals with the engine, as root, or else what anybody may read.
func thisHost(ctx context.Context, getenv func(string) string) host {
	if getenv(inContainer) != "" {
		return host{
			uid: os.Geteuid(), gid: os.Getegid(), getenv: getenv, isThis: func(string) bool { return false },
			stat:    func(string) (fileInfo, error) { return fileInfo{mode: fs.ModeDir | 0o755}, nil },
			readDir: func(string) ([]string, error) { return nil, nil },
		}
	}
	return host{
		uid: os.Geteuid(), gid: os.Getegid(), stat: stat, readDir: readDir, getenv: getenv,
		isThis: func(name string) bool {
			self, err := os.Hostname()
			if err != nil {
				self = ""
			}
			return isThisHost(ctx, name, self, firstAddress(), net.DefaultResolver)
		},
	}
}

func stat(p string) (fileInfo, error) {
	info, err := os.Stat(p)
	if err != nil {
		return fileInfo{}, err
	}
	f := fileInfo{mode: info.Mode(), uid: -1, gid: -1}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		f.uid, f.gid = int(st.Uid), int(st.Gid)
	}
	return f, nil
}

// checkLink refuses a link that another user has put where the engine would follow it as root: in /dev/shm everybody may have
// been there before us, and not every kernel minds (fs.protected_symlinks).
func checkLink(p string) error {
	info, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at bridge directory: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode()&fs.ModeSymlink != 0 && (!ok || st.Uid != 0 && int(st.Uid) != os.Geteuid()) {
		return &engine.Error{
			Err:  fmt.Errorf("%s is a link that belongs to user %d: who made it could lead the node's files to any place of this host", p, st.Uid),
			Help: "remove it, or name another directory with --bridge-dir",
		}
	}
	return nil
}

func readDir(p string) ([]string, error) {
	entries, err := os.ReadDir(p)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		paths = append(paths, p+"/"+e.Name())
	}
	return paths, nil
}

// resolver is the part of net.Resolver that is asked.
type resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupCNAME(ctx context.Context, host string) (string, error)
}

const lookupLimit = 5 * time.Second

// isThisHost is the original's rule for publishing ports: name is the host's first address, its host name or its full name.
// A name is looked up too, so that any name of the first address will do.
func isThisHost(ctx context.Context, name, self, firstAddress string, r resolver) bool {
	if name == "" {
		return false
	}
	if self != "" && sameName(name, self) {
		return true
	}
	ip := net.ParseIP(firstAddress)
	if literal := net.ParseIP(name); literal != nil {
		return literal.Equal(ip)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	if self != "" && strings.HasPrefix(strings.ToLower(name), strings.ToLower(self)+".") {
		if full, err := r.LookupCNAME(ctx, self); err == nil && sameName(name, full) {
			return true
		}
	}
	addresses, err := r.LookupHost(ctx, name)
	return err == nil && ip != nil && slices.ContainsFunc(addresses, func(a string) bool { return net.ParseIP(a).Equal(ip) })
}

func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}

// firstAddress is what `hostname -I` prints first: the first address of an interface that is up, loopback left out. "" if
// there is none.
func firstAddress() string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return ""
	}
	var sixth string
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			n, ok := a.(*net.IPNet)
			if !ok || !n.IP.IsGlobalUnicast() {
				continue
			}
			if n.IP.To4() != nil {
				return n.IP.String()
			}
			if sixth == "" {
				sixth = n.IP.String()
			}
		}
	}
	return sixth
}
