package mountns

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit codes of a program that could not be started, as in a shell.
const (
	exitNotStarted = 126
	exitNotFound   = 127
)

// Become makes the mounts that Wrap asked for, in the namespace that this process was started in, and becomes the program. It takes the
// arguments after Command. It returns an exit code only if it fails, or if there is no program.
func Become(args []string) int {
	runtime.LockOSThread() // rights and the signal of a parent's death belong to a thread, and the program is run by this one
	var p plan
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &p) != nil {
		fmt.Fprintf(os.Stderr, "%s is for swarmd itself\n", Command)
		return exitNotStarted
	}
	if err := p.enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitNotStarted
	}
	if p.Path == "" {
		return 0
	}
	err := syscall.Exec(p.Path, p.Args, os.Environ())
	fmt.Fprintf(os.Stderr, "start %s: %v\n", p.Path, err)
	if errors.Is(err, syscall.ENOENT) {
		return exitNotFound
	}
	return exitNotStarted
}

// enter makes the mounts and gives up what was needed for them.
func (p plan) enter() error {
	if err := mountAll(p.Binds); err != nil {
		return err
	}
	if err := os.Chdir(p.Dir); err != nil {
		return fmt.Errorf("go back to the working directory: %w", err)
	}
	if p.Parent != 0 {
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
			return fmt.Errorf("follow the parent's death: %w", err)
		}
		if os.Getppid() != p.Parent {
			return errors.New("the parent is dead")
		}
	}
	if os.Geteuid() == 0 {
		return nil // keeps what root had
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("give up rights: %w", err)
	}
	return nil
}
