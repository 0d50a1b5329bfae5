package mountns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// mostEntries bounds the directories that are made anew: this machine's root, and those in which a mount point is missing.
const mostEntries = 10_000

// oldRoot is where this machine's root directory lies while the new one is made.
const oldRoot = "/.swarmd-old-root"

// tree is the file system that the program sees, in a mount namespace of this process's own.
type tree struct {
	scratch string            // a directory of this machine
	made    map[uint64]string // directories that are file systems of the namespace's own, by their devices
	old     bool              // oldRoot is there
}

// mountAll makes the binds. What is mounted on this machine later is seen in the namespace too, and what is unmounted vanishes there;
// nothing goes the other way.
func mountAll(binds []Bind) error {
	if len(binds) == 0 {
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("part the mounts from this machine's: %w", err)
	}
	// Opened first: a target may hide a source.
	sources := make([]int, len(binds))
	for i, b := range binds {
		fd, err := openDir(b.Source)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		sources[i] = fd
	}
	t := &tree{scratch: binds[0].Source, made: make(map[uint64]string)}
	for i, b := range binds {
		target, err := t.mountPoint(b.Target)
		if err != nil {
			return fmt.Errorf("make mount point %s: %w", b.Target, err)
		}
		if err := bind(descriptor(sources[i]), target); err != nil {
			return fmt.Errorf("mount %s at %s: %w", b.Source, b.Target, err)
		}
		if !b.ReadOnly {
			continue
		}
		if err := readOnly(target, unix.AT_RECURSIVE); err != nil {
			return fmt.Errorf("mount %s read-only: %w", b.Target, err)
		}
	}
	return t.finish()
}

func openDir(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", path, err)
	}
	return fd, nil
}

// descriptor is the path of what a descriptor is open on, whatever was mounted over it since.
func descriptor(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func bind(source, target string) error {
	return unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

// readOnly makes a mount read-only, with flags AT_RECURSIVE all below it too where the kernel can (Linux 5.12).
func readOnly(target string, flags uint) error {
	err := unix.MountSetattr(unix.AT_FDCWD, target, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if !errors.Is(err, unix.ENOSYS) {
		return err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(target, &stat); err != nil {
		return err
	}
	// Flags that this machine's mount has must be repeated; those of statfs and of mount have the same values.
	const kept = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|uintptr(stat.Flags)&kept, "")
}

// mountPoint returns the directory that path names, links on the way resolved, which is made if it is not there. This machine is not
// written to but in directories that everybody may write, such as /tmp; elsewhere the directory that would hold the mount point is
// replaced in the namespace by one with the same entries.
func (t *tree) mountPoint(path string) (string, error) {
	have, missing := path, ""
	for {
		_, err := os.Lstat(have)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		missing = filepath.Join(filepath.Base(have), missing)
		have = filepath.Dir(have)
	}
	have, info, err := resolve(have)
	if err != nil || missing == "" {
		return have, err
	}
	if _, own := t.made[device(info)]; !own && info.Mode()&os.ModeSticky == 0 {
		if err := t.shadow(have, info.Mode().Perm()); err != nil {
			return "", err
		}
	}
	target := filepath.Join(have, missing)
	return target, os.MkdirAll(target, 0o755)
}

// resolve follows the links of a directory's path. In a directory that everybody may write a link may be anybody's.
func resolve(path string) (string, fs.FileInfo, error) {
	for at := path; at != "/"; at = filepath.Dir(at) {
		link, err := os.Lstat(at)
		if err != nil || link.Mode()&os.ModeSymlink == 0 {
			continue
		}
		if parent, err := os.Stat(filepath.Dir(at)); err != nil || parent.Mode()&os.ModeSticky != 0 {
			return "", nil, fmt.Errorf("%s is a link in a directory that everybody may write", at)
		}
	}
	followed, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Stat(followed)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", path)
	}
	return followed, info, err
}

// device tells file systems apart.
func device(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Dev
	}
	return 0
}

// mounted notes that a directory is a file system of the namespace's own.
func (t *tree) mounted(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	t.made[device(info)] = dir
	return nil
}

// shadow replaces a directory by one with the same entries, to which others can be added.
func (t *tree) shadow(dir string, mode fs.FileMode) error {
	if dir == "/" {
		return t.newRoot(mode)
	}
	fd, err := openDir(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := mountEmpty(dir, mode); err != nil {
		return err
	}
	if err := t.mounted(dir); err != nil {
		return err
	}
	return repeat(entries, descriptor(fd), dir)
}

// newRoot makes an own root directory: nobody can mount over the one that is there and be seen to.
func (t *tree) newRoot(mode fs.FileMode) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	// Any directory will do: the mount moves away from it at once.
	if err := mountEmpty(t.scratch, mode); err != nil {
		return err
	}
	below := filepath.Join(t.scratch, oldRoot)
	if err := os.Mkdir(below, 0o755); err != nil {
		return err
	}
	if err := unix.PivotRoot(t.scratch, below); err != nil {
		return fmt.Errorf("change the root directory: %w", err)
	}
	t.old = true
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := t.mounted("/"); err != nil {
		return err
	}
	return repeat(entries, oldRoot, "/")
}

func mountEmpty(dir string, mode fs.FileMode) error {
	// Sizes in pages: directories and links only, but one file for each that is mounted over.
	options := fmt.Sprintf("mode=%o,size=1m,nr_inodes=%d", mode, 2*mostEntries)
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount an empty directory: %w", err)
	}
	return nil
}

// repeat makes the entries of directory from in directory to.
func repeat(entries []fs.DirEntry, from, to string) error {
	if len(entries) > mostEntries {
		return fmt.Errorf("%s has more than %d entries", to, mostEntries)
	}
	for _, e := range entries {
		if err := repeatOne(e, filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func repeatOne(e fs.DirEntry, from, to string) error {
	if e.Type()&os.ModeSymlink != 0 {
		text, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(text, to)
	}
	if e.IsDir() {
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
	} else if err := os.WriteFile(to, nil, 0o600); err != nil {
		return err
	}
	if err := bind(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be gone by now
		return fmt.Errorf("mount %s in its place: %w", to, err)
	}
	return nil
}

// finish takes the old root away and lets nothing be written to directories that end with the program.
func (t *tree) finish() error {
	if t.old {
		if err := unix.Unmount(oldRoot, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount the old root directory: %w", err)
		}
		if err := os.Remove(oldRoot); err != nil {
			return err
		}
	}
	for _, dir := range t.made {
		if err := readOnly(dir, 0); err != nil {
			return fmt.Errorf("make %s read-only: %w", dir, err)
		}
	}
	return nil
}
