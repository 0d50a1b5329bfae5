package engine

import "github.com/docker/docker/client"

// Explain adds to an engine's error what the user can do about it. A nil error stays nil.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if client.IsErrConnectionFailed(err) {
		return &Error{Err: err, Help: "start the engine (systemctl start docker), or name its socket with DOCKER_HOST"}
	}
	return err
}

// Error is an engine's error with a remedy.
type Error struct {
	Err  error
	Help string // one line
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Remedy is what the user can do about it.
func (e *Error) Remedy() string { return e.Help }
