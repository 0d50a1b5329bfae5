// Package secret reads the values that a host has for members of jobs: a folder with a file for each, which its owner fills. Errors name a secret
// and neither the folder nor what is in it, as others than the owner read them.
package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Bounds of values, in bytes.
const (
	MaxValue = 64 << 10
	MaxAll   = 1 << 20 // of one member
)

// others are the rights by which others than a file's user read it or write to it.
const others = 0o077

// Option is the option that names the folder.
const Option = "secrets-dir"

// Dir is the folder; empty: the host has no secrets.
type Dir string

// Check says what is wrong with the folder, for its owner: it must be there, and nobody else may put files into it.
func (d Dir) Check() error {
	if d == "" {
		return nil
	}
	info, err := os.Stat(string(d))
	switch {
	case err != nil:
		return fmt.Errorf("--%s: %w: name a directory with a file for each secret", Option, err)
	case !info.IsDir():
		return fmt.Errorf("--%s: %s is no directory: name one with a file for each secret", Option, d)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("--%s: others may put files into %s: chmod 700 it", Option, d)
	}
	return nil
}

// Has says which of some secrets the host can't give, and why; nil: it can give all.
func (d Dir) Has(names []string) error {
	left := MaxAll
	for _, name := range names {
		value, err := d.Value(name)
		if err != nil {
			return err
		}
		if left -= len(value); left < 0 {
			return fmt.Errorf("the secrets of a member have more than %d bytes together on this host: ask for fewer", MaxAll)
		}
	}
	return nil
}

// Value is that of a secret, as it is in its file.
func (d Dir) Value(name string) ([]byte, error) {
	if d == "" {
		return nil, fmt.Errorf("this host has no secret %.64q: its owner starts it with --%s and a directory that has a file of that name", name, Option)
	}
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, unread(name, err)
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a link may lead to a file in the folder, as where a cluster puts the files
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("this host has no secret %.64q: its owner puts a file of that name into the directory of --%s", name, Option)
	case err != nil:
		return nil, unread(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, unread(name, err)
	case !info.Mode().IsRegular() || strings.Contains(name, "/"):
		return nil, fmt.Errorf("this host has no file for secret %.64q: its owner puts one of that name into the directory of --%s", name, Option)
	case info.Mode().Perm()&others != 0:
		return nil, fmt.Errorf("this host gives no secret %.64q, as other users of it may read or change the file: its owner is to chmod 600 it", name)
	case info.Size() == 0 || info.Size() > MaxValue:
		return nil, fmt.Errorf("this host's file of secret %.64q has %d bytes: its owner puts a value of 1 to %d bytes there", name, info.Size(), MaxValue)
	}
	value, err := io.ReadAll(io.LimitReader(f, MaxValue+1))
	if err == nil && (len(value) == 0 || len(value) > MaxValue) {
		err = errors.New("it was changed meanwhile")
	}
	if err != nil {
		return nil, unread(name, err)
	}
	return value, nil
}

// unread is an error without the words of the system, in which paths of the host are. It passes by itself unless the SWOP may not read the file, or
// a link leads out of the folder, which is no error of the system.
func unread(name string, err error) error {
	why, passes := "its owner is to look whether its SWOP may", true
	if p, is := errors.AsType[*fs.PathError](err); is {
		why = p.Err.Error() + ": " + why
		_, system := errors.AsType[syscall.Errno](p.Err)
		passes = system && !errors.Is(err, fs.ErrPermission)
	}
	return &unreadError{fmt.Sprintf("this host can't read secret %.64q: %s", name, why), passes}
}

// unreadError is of a file that can't be read.
type unreadError struct {
	words  string
	passes bool
}

func (e *unreadError) Error() string { return e.words }

// Passes reports whether what an error of a secret says may pass without anybody's doing, as what a disk has.
func Passes(err error) bool {
	e, is := errors.AsType[*unreadError](err)
	return is && e.passes
}

// Variable is the value of a secret as one of the environment: without the line break at the end that editors write.
func (d Dir) Variable(name string) (string, error) {
	value, err := d.Value(name)
	if err != nil {
		return "", err
	}
	value = bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
	if bytes.IndexByte(value, 0) >= 0 {
		return "", fmt.Errorf("secret %.64q has a zero byte, which no variable may have: ask for it as: file", name)
	}
	return string(value), nil
}
