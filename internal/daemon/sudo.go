package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// sudoLimit bounds the question whether sudo works without a password.
const sudoLimit = 5 * time.Second

// Sudo is how a command becomes root's. Its fields are functions so that tests need no sudo.
type Sudo struct {
	UID func() int
	// Find returns sudo's path, an error if there is none.
	Find func() (string, error)
	// Silent tells whether sudo asks for no password.
	Silent func(context.Context, string) bool
	// Exec replaces this process; it returns only an error.
	Exec func(path string, argv, environ []string) error
}

// osSudo is the machine's.
func osSudo() Sudo {
	return Sudo{
		UID:  os.Geteuid,
		Find: func() (string, error) { return exec.LookPath("sudo") },
		Silent: func(ctx context.Context, sudo string) bool {
			ctx, cancel := context.WithTimeout(ctx, sudoLimit)
			defer cancel()
			return exec.CommandContext(ctx, sudo, "-n", "true").Run() == nil
		},
		Exec: syscall.Exec,
	}
}

// again runs this command anew under sudo, with the variables that mean something to it. It returns only if that can't be.
func (s Sudo) again(e Env) error {
	sudo, err := s.Find()
	if err != nil {
		return errors.New("--sudo: there is no sudo on this machine: become root, or join the group of the engine's socket (docker)")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("--sudo: find swarmd: %w", err)
	}
	// env, since sudo's own way to keep variables needs a permission that few have.
	argv := []string{sudo, "--", "env"}
	argv = append(argv, kept(e.Environ())...)
	argv = append(argv, self)
	argv = append(argv, slices.DeleteFunc(slices.Clone(e.args[1:]), isSudo)...)
	if err := s.Exec(sudo, argv, e.Environ()); err != nil {
		return fmt.Errorf("--sudo: %w", err)
	}
	return nil
}

func isSudo(arg string) bool {
	return arg == "--sudo" || arg == "-sudo" || strings.HasPrefix(arg, "--sudo=")
}

// kept are the variables that options and the engine's client read.
func kept(environ []string) []string {
	var list []string
	for _, kv := range environ {
		for _, prefix := range []string{"SWARM_", "DOCKER_", "SPIFFE_", "SL_WAIT_FOR_FULL_QUORUM_SECONDS="} {
			if strings.HasPrefix(kv, prefix) {
				list = append(list, kv)
			}
		}
	}
	return list
}

// helps tells whether sudo is to be tried by itself when the engine's socket refused this user.
func (s Sudo) helps(ctx context.Context, terminal bool) bool {
	sudo, err := s.Find()
	return err == nil && s.UID() != 0 && (terminal || s.Silent(ctx, sudo))
}

// caller is the user on whose behalf we run, as uid:gid: under sudo the one who called it.
func caller(e Env) string {
	uid, gid := e.Getenv("SUDO_UID"), e.Getenv("SUDO_GID")
	if os.Geteuid() == 0 && number(uid) && number(gid) {
		return uid + ":" + gid
	}
	return fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
}
