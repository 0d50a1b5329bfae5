// Package sudo runs a command of ours again as root, for a user who may not use the container engine's socket.
package sudo

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

// limit bounds the question whether sudo works without a password.
const limit = 5 * time.Second

// Sudo is how a command becomes root's. Its fields are functions so that tests need no sudo.
type Sudo struct {
	UID func() int
	// Find returns sudo's path, an error if there is none.
	Find func() (string, error)
	// Silent reports whether sudo asks for no password.
	Silent func(ctx context.Context, path string) bool
	// Exec replaces this process; it returns only an error.
	Exec func(path string, argv, environ []string) error
}

// OS is the machine's.
func OS() Sudo {
	return Sudo{
		UID:  os.Geteuid,
		Find: func() (string, error) { return exec.LookPath("sudo") },
		Silent: func(ctx context.Context, path string) bool {
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return exec.CommandContext(ctx, path, "-n", "true").Run() == nil
		},
		Exec: syscall.Exec,
	}
}

// Helps reports whether sudo is to be tried without being asked for: this user is not root, and sudo needs no password or has a
// terminal to ask for one.
func (s Sudo) Helps(ctx context.Context, terminal bool) bool {
	path, err := s.Find()
	return err == nil && s.UID() != 0 && (terminal || s.Silent(ctx, path))
}

// Again runs this program anew under sudo with args, which follow its name, without --sudo; of environ it gets the variables
// that mean something to it, and more, K=V, which win. It returns only if that can't be.
func (s Sudo) Again(args, environ []string, more ...string) error {
	path, err := s.Find()
	if err != nil {
		return errors.New("--sudo: there is no sudo on this machine: become root, or join the group of the engine's socket (docker)")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("--sudo: find this program: %w", err)
	}
	// env, since sudo's own way to keep variables needs a permission that few have.
	argv := slices.Concat([]string{path}, preserved(environ), []string{"--", "env"}, kept(environ), more, []string{self}, slices.DeleteFunc(slices.Clone(args), isOption))
	if err := s.Exec(path, argv, environ); err != nil {
		return fmt.Errorf("--sudo: %w", err)
	}
	return nil
}

func isOption(arg string) bool {
	return arg == "--sudo" || arg == "-sudo" || strings.HasPrefix(arg, "--sudo=")
}

// secrets are variables that must not stand on a command line, which every user of the host can read. Those that are needed
// (true) are kept in sudo's own way.
var secrets = map[string]bool{"SWARM_SPIRE_JOIN_TOKEN": true, "DOCKER_AUTH_CONFIG": false}

func secret(kv string) (name string, yes bool) {
	name, _, _ = strings.Cut(kv, "=")
	_, yes = secrets[name]
	return name, yes
}

func preserved(environ []string) []string {
	var list []string
	for _, kv := range environ {
		if name, _ := secret(kv); secrets[name] {
			list = append(list, "--preserve-env="+name)
		}
	}
	return list
}

// kept are the variables that options, contexts and the engine's client read.
func kept(environ []string) []string {
	var list []string
	for _, kv := range environ {
		if _, yes := secret(kv); yes {
			continue
		}
		for _, prefix := range []string{"SWARM_", "DOCKER_", "SPIFFE_", "XDG_", "SL_WAIT_FOR_FULL_QUORUM_SECONDS="} {
			if strings.HasPrefix(kv, prefix) {
				list = append(list, kv)
			}
		}
	}
	return list
}
