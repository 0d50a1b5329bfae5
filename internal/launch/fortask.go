package launch

import (
	"errors"
	"regexp"
	"strings"
)

// inTask is what stands for an option of run-sl where a SWOP has started the SL for a task: nobody gave it that option.
var inTask = map[string]string{
	"--model-program":   "Command in the task",
	"--ml-cmd":          "Command in the task",
	"--ml-entrypoint":   "Entrypoint in the task",
	"--ml-image":        "the image, which the task's Prereq makes",
	"--ml-w":            "WorkingDir in the task",
	"--ml-v":            "SharedContent in the task or privatedata in the host's profile:",
	"--model-dir":       "SharedContent or PrivateContent in the task",
	"--data-dir":        "privatedata in the host's profile",
	"--ml-memory":       "memory under limits in the host's policy",
	"--ml-cpus":         "cpus under limits in the host's policy",
	"--ml-name":         "groupname in the host's profile",
	"--ml-network":      "network in the host's profile",
	"--ml-shm-size":     "shm-size in the host's profile",
	"--ml-device":       "device in the host's profile",
	"--ml-security-opt": "security-opt in the host's profile",
	"--ml-gpus":         "gpus in the host's profile",
	"--gpu":             "gpus in the host's profile",
	"--session-timeout": "SWARM_SESSION_TIMEOUT in the host's profile",
}

var option = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)

// forTask is an error that names what a task's readers can change.
type forTask struct{ err error }

// ForTask returns the error of an SL, or of its program, that a SWOP starts for a task. It names what can be changed in the task, or at its host, where
// the error names options of run-sl. Indented lines, a program's last words, stay as they are.
func ForTask(err error) error {
	if err == nil {
		return nil
	}
	return &forTask{err}
}

// Error implements error.
func (f *forTask) Error() string { return taskWords(f.err.Error()) }

// Remedy is what to do about it, as the error says.
func (f *forTask) Remedy() string {
	var with interface{ Remedy() string }
	if !errors.As(f.err, &with) {
		return ""
	}
	return taskWords(with.Remedy())
}

// Unwrap returns what happened.
func (f *forTask) Unwrap() error { return f.err }

func taskWords(said string) string {
	var all strings.Builder
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			line = option.ReplaceAllStringFunc(line, func(name string) string {
				if words := inTask[name]; words != "" {
					return words
				}
				return name
			})
		}
		all.WriteString(line)
	}
	return all.String()
}
