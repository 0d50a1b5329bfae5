package runjob

import (
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"
)

// bySignal is the exit code of a program that signal 0 would have ended, as a shell has it.
const bySignal = 128

// signalWords say of an exit code that it is that of a program which a signal has ended; empty: it is not.
func signalWords(code int) string {
	name := unix.SignalName(syscall.Signal(code - bySignal))
	if code <= bySignal || name == "" {
		return ""
	}
	if name == "SIGKILL" {
		return "as of SIGKILL: somebody has killed it, or its host for want of memory"
	}
	return "as of " + name
}

var missingModule = regexp.MustCompile(`ModuleNotFoundError: No module named '([A-Za-z0-9_.]{1,80})'`)

// withRemedy is the last words of a program, or the last of them with what is to be done, where that is known.
func withRemedy(said, remedy string) string {
	if m := missingModule.FindString(said); m != "" {
		return m + ": " + remedy
	}
	return said
}
