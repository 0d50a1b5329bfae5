package original

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/child"
)

const (
	// longestReconnect bounds what a variable asks for.
	longestReconnect = 24 * time.Hour
	// grace is between SIGTERM and SIGKILL to a program whose client can not be served any more.
	grace = 5 * time.Second
	// envReconnect says for how many seconds a node that is gone is waited for.
	envReconnect = "SWARM_RECONNECT"
)

// run serves the client of a program until that ends.
func (o Options) run(words []string) (code int, err error) {
	f, err := o.front(os.Getenv)
	if err != nil {
		return 0, err
	}
	defer f.remove()
	if err := f.Prepare(); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	p, err := start(words, append(os.Environ(), EnvRequest+"="+f.Request, EnvResponse+"="+f.Response))
	if err != nil {
		return 0, err
	}
	serving, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- f.Serve(serving) }()
	return p.await(signals, served, func() { f.leave(stop) }, o.Forward)
}

// front is what the options and the environment say.
func (o Options) front(getenv func(string) string) (*Front, error) {
	folder, err := o.folder()
	if err != nil {
		return nil, err
	}
	f := &Front{Bridge: program.Bridge{Dir: getenv(wire.EnvBridgeDir), Say: say}, Folder: folder, Say: say}
	if f.Bridge.Dir == "" {
		return nil, fmt.Errorf("%s is not set: this program was not started by a swarm daemon", wire.EnvBridgeDir)
	}
	if seconds, err := strconv.ParseFloat(getenv(envReconnect), 64); err == nil && seconds > 0 {
		f.Bridge.Reconnect = time.Duration(min(seconds, longestReconnect.Seconds()) * float64(time.Second))
	}
	for _, pipe := range []struct {
		path           *string
		variable, name string
	}{{&f.Request, EnvRequest, requestPipe}, {&f.Response, EnvResponse, responsePipe}} {
		*pipe.path = getenv(pipe.variable)
		if *pipe.path == "" {
			*pipe.path = filepath.Join(folder, pipe.name)
		}
	}
	return f, nil
}

// folder makes the folder, and the link that leads there. A directory that stands where the link would be is the user's.
func (o Options) folder() (string, error) {
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return "", err
	}
	if o.Link == "" {
		return o.Folder, nil
	}
	err := os.Symlink(o.Folder, o.Link)
	if !errors.Is(err, fs.ErrExist) {
		return o.Folder, err
	}
	to, err := os.Readlink(o.Link)
	if err == nil && to == o.Folder {
		return o.Folder, nil
	}
	if info, err := os.Lstat(o.Link); err != nil || !info.IsDir() {
		return "", errors.Join(fmt.Errorf("%s is there and is no directory: the original's client keeps its weights there", o.Link), err)
	}
	return o.Link, nil
}

// served is a program that was started.
type served struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// start starts a program that dies with this process and has its streams and its group.
func start(words, env []string) (*served, error) {
	p := &served{cmd: exec.Command(words[0], words[1:]...), done: make(chan struct{})} //nolint:noctx // the program ends by itself, or by a signal
	p.cmd.Env, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel kills the program when the thread ends that started it
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its error repeats the state
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", words[0], err)
	}
	return p, nil
}

// await returns the program's exit code when it has ended and what it left to its node is done. It ends a program that can not be served.
func (p *served) await(signals <-chan os.Signal, served <-chan error, leave func(), forward bool) (int, error) {
	for {
		select {
		case s := <-signals:
			if forward {
				_ = p.cmd.Process.Signal(s) // it may have ended just now
			}
		case err := <-served:
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.done:
			case <-time.After(grace):
				_ = p.cmd.Process.Kill()
				<-p.done
			}
			return 0, err
		case <-p.done:
			left := make(chan struct{})
			go func() {
				leave()
				close(left)
			}()
			select {
			case <-left:
			case <-signals:
			}
			code, _ := child.ExitCode(p.cmd.ProcessState)
			return code, nil
		}
	}
}
