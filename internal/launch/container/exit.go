package container

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/text"
)

// ending is what is known of how a container ended.
type ending struct {
	code    int
	oom     bool   // the engine saw the memory limit strike
	fault   string // what the engine says went wrong
	memory  int64  // limit in bytes, 0: none
	shm     int64  // bytes of /dev/shm, 0: unknown
	stopped bool   // at our wish

	away     bool // the engine was away when it ended, and takes containers along when it goes
	adopted  bool
	vanished bool
	lost     string // why nothing more is known
}

const (
	reasonVanished  = "container vanished: it was removed at the engine"
	reasonLost      = "the container engine did not end the program in time: it may still run"
	reasonRestarted = "the container engine was restarted and took the program along; live-restore in the engine's daemon.json prevents that"
)

// exit says it as the process runtime would.
func (e ending) exit(tail []string, logErr error) launch.Exit {
	x := launch.Exit{ExitCode: e.code, Tail: tail, LogErr: logErr}
	switch {
	case e.vanished:
		x.ExitCode, x.Reason = -1, reasonVanished
		return x
	case e.lost != "":
		x.ExitCode, x.Reason, x.Lost = -1, e.lost, true
		return x
	}
	if n := e.code - 128; n > 0 && n < 32 {
		x.Signal = syscall.Signal(n)
	}
	x.Reason = e.reason(tail)
	return x
}

func (e ending) reason(tail []string) string {
	switch {
	case e.away && !e.oom:
		return reasonRestarted
	case e.code == 0:
		return ""
	case e.oom && e.memory > 0:
		return fmt.Sprintf("killed for memory (limit %s): raise --ml-memory", size(e.memory))
	case e.oom:
		return "killed for memory: this machine has no more"
	case e.sharedMemory(tail):
		have := ""
		if e.shm > 0 {
			have = fmt.Sprintf(" (%s)", size(e.shm))
		}
		return fmt.Sprintf("shared memory is too small for the data loaders%s: raise --ml-shm-size", have)
	case e.stopped:
		return ""
	}
	switch e.code {
	case 125:
		return "usually the container could not be run" + e.colonFault()
	case 126:
		return "usually the command can not be executed: check its permissions, --ml-cmd and --ml-entrypoint"
	case 127:
		return "usually the command is not in the image: check --ml-cmd, --ml-entrypoint and --ml-image"
	case 128 + int(syscall.SIGKILL):
		if e.memory > 0 {
			return fmt.Sprintf("killed from outside, by hand or for memory (limit %s): raise --ml-memory if so", size(e.memory))
		}
		return "killed from outside, by hand or because this machine had no more memory"
	case 255:
		if e.adopted {
			return "the program ended so, or this machine was restarted"
		}
	}
	return strings.TrimPrefix(e.colonFault(), ": ")
}

func (e ending) colonFault() string {
	if e.fault == "" {
		return ""
	}
	return ": " + oneLine(e.fault)
}

// sharedMemory reports whether /dev/shm was too small, by the signal of who writes where a file system has no room, and by the
// words of PyTorch, multiprocessing and NCCL.
func (e ending) sharedMemory(tail []string) bool {
	if e.code == 128+int(syscall.SIGBUS) {
		return true
	}
	for _, line := range tail {
		l := strings.ToLower(line)
		switch {
		case strings.Contains(l, "insufficient shared memory"),
			strings.Contains(l, "killed by signal: bus error"),
			strings.Contains(l, "no space left on device") && (strings.Contains(l, "/dev/shm") || strings.Contains(l, "/torch_") || strings.Contains(l, "shared memory")),
			strings.Contains(l, "error while creating shared memory segment"):
			return true
		}
	}
	return false
}

// maxOneLine is the length of what is shown of an engine's words, in bytes.
const maxOneLine = 500

// oneLine makes a bounded line of what an engine or a container says, safe to show.
func oneLine(s string) string {
	return text.Clip(text.Line(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")), maxOneLine)
}
