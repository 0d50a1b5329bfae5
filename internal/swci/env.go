package swci

import (
	"io"
	"os"
	"time"

	"github.com/swarmd/swarmd/internal/terminal"
)

// Env is all of the outside world that a command may touch, so that tests can stand in for it.
type Env struct {
	Stdin      io.Reader
	Stdout     io.Writer // data only
	Stderr     io.Writer // everything else
	Getenv     func(string) string
	Now        func() time.Time
	IsTerminal func(io.Writer) bool
}

// OSEnv is the environment of the running process.
func OSEnv() Env {
	return Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now, IsTerminal: func(w io.Writer) bool { return terminal.Is(w) },
	}
}
