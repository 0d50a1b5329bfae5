package identity

import (
	"fmt"
	"os"
	"syscall"
)

// PrivateDir makes dir with mode 0700, or checks that an existing one is ours and closed to others.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("check state directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("state directory %s belongs to uid %d, not to uid %d that runs this: run it as that user (sudo -u '#%d' …), or use another --state-dir", dir, st.Uid, os.Geteuid(), st.Uid)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("state directory %s has mode %04o: others may read it; run chmod 0700 %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}
