// Package original serves the original's own client, releases 2.0 to 2.3: a program with it talks over two named pipes, and hands in its
// weights in messages or in pickle files. It speaks with the client on one side and on the bridge of swarmd's node on the other, and
// runs beside the program, as the program's user: the daemon reads nothing of the original's.
package original

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge/program"
)

// The variables by which the client finds its pipes.
const (
	EnvRequest  = "SL_REQUEST_CHANNEL"  // from the client
	EnvResponse = "SL_RESPONSE_CHANNEL" // to the client
)

// Folder is where release 2.3 keeps its weights, whatever it is told.
const Folder = "/tmp/hpe-swarm"

// Names in the folder. The client writes the first file, and reads the one that it is told.
const (
	trainedFile  = "trained_weights.pkl"
	mergedFile   = "merged_weights.pkl"
	requestPipe  = "request.channel"
	responsePipe = "response.channel"
)

// pipeSize is how much a pipe is asked to hold, in bytes: weights pass through it.
const pipeSize = 1 << 20

// Front serves one program.
type Front struct {
	Bridge            program.Bridge
	Folder            string // of the weight files
	Request, Response string // the pipes
	Say               func(line string)

	talking sync.Mutex // held while there is a client
	leaving sync.Mutex // held while a session is closed for a client that waits for nothing
}

// lastWords is how long a client's last messages may take to be read, once its program has ended.
const lastWords = 2 * time.Second

// leave waits for the session that a client has left to be closed, and calls stop.
func (f *Front) leave(stop func()) {
	quiet := make(chan struct{})
	go func() {
		f.talking.Lock()
		f.talking.Unlock() //nolint:staticcheck // only to know that nobody holds it
		close(quiet)
	}()
	select {
	case <-quiet:
	case <-time.After(lastWords): // something else has the pipes open
	}
	f.leaving.Lock()
	defer f.leaving.Unlock()
	stop()
}

// Prepare makes the files first and then the pipes: the client waits for the pipes for ever, and for the files a second.
func (f *Front) Prepare() error {
	for _, name := range []string{trainedFile, mergedFile} {
		if err := makeFile(filepath.Join(f.Folder, name)); err != nil {
			return err
		}
	}
	for _, p := range []struct{ variable, path string }{{EnvRequest, f.Request}, {EnvResponse, f.Response}} {
		if err := makePipe(p.path); err != nil {
			return fmt.Errorf("%w: remove it, or name another path in %s", err, p.variable)
		}
	}
	return nil
}

// renew puts new pipes in the place of those that a client may still have open, which then sees their end, and is not taken for the next one.
func (f *Front) renew() error {
	for _, path := range []string{f.Request, f.Response} {
		next := path + ".new"
		_ = os.Remove(next) // of an earlier run that was killed here
		if err := errors.Join(makePipe(next), os.Rename(next, path)); err != nil {
			return fmt.Errorf("renew pipe: %w", err)
		}
	}
	return nil
}

// remove removes what Prepare has made in the folder, and leaves the folder: it may be anything's.
func (f *Front) remove() {
	for _, name := range []string{trainedFile, mergedFile, requestPipe, responsePipe} {
		_ = os.Remove(filepath.Join(f.Folder, name)) // nobody needs to hear of it
	}
}

// everybody is the mode of files and pipes: the original's, for a program that gives up its user.
const everybody = 0o777

func makeFile(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, everybody)
	if err != nil {
		return fmt.Errorf("make weight file: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("weight file %s is no file", path), err)
	}
	return file.Chmod(everybody)
}

func makePipe(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), everybody); err != nil {
		return fmt.Errorf("make the folder of a pipe: %w", err)
	}
	err := unix.Mkfifo(path, everybody)
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().Type() != fs.ModeNamedPipe {
			err = fmt.Errorf("%s is there and is no named pipe", path)
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("make pipe %s: %w", path, err)
	}
	return os.Chmod(path, everybody)
}

// Serve converses with the program's client, and with the next one if the program starts another, until ctx ends. It returns an error
// only if the pipes can not be used. What goes wrong in a conversation is said to both sides.
func (f *Front) Serve(ctx context.Context) error {
	for {
		c, err := f.connect(ctx)
		if err == nil {
			f.talking.Lock()
			err = c.run(ctx)
			c.close()
			f.talking.Unlock()
			if broken := !errors.Is(err, io.EOF) && ctx.Err() == nil; broken {
				f.Say(err.Error())
				err = f.renew()
			} else {
				err = nil
			}
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		if err != nil {
			return err
		}
	}
}

// connect waits for a client. The response pipe comes first, as the client opens it first, and each open waits for its counterpart.
func (f *Front) connect(ctx context.Context) (*conversation, error) {
	out, err := openPipe(ctx, f.Response, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	in, err := openPipe(ctx, f.Request, os.O_RDONLY)
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return &conversation{front: f, in: newInbox(in), out: out}, nil
}

// openPipe opens one end of a pipe and waits for the other one, or until ctx ends.
func openPipe(ctx context.Context, path string, way int) (*os.File, error) {
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		return nil, fmt.Errorf("pipe %s is gone or is none any more", path)
	}
	other := os.O_RDONLY
	if way == os.O_RDONLY {
		other = os.O_WRONLY
	}
	opened := context.AfterFunc(ctx, func() {
		if fd, err := unix.Open(path, other|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil { // ends the waiting
			_ = unix.Close(fd)
		}
	})
	defer opened()
	file, err := os.OpenFile(path, way, 0)
	if err != nil {
		return nil, fmt.Errorf("open pipe: %w", err)
	}
	if ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), file.Close())
	}
	if raw, err := file.SyscallConn(); err == nil { // more is faster, less will do
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, syscall.F_SETPIPE_SZ, pipeSize) })
	}
	return file, nil
}
