// Package logpack packs what there is to know of this host's components into one archive, for somebody who helps: versions, logs,
// containers, task files. It reads and removes nothing else, and leaves out what looks like a secret.
package logpack

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	// maxPart bounds one file of the archive in bytes, before compression: of a log its end.
	maxPart = 16 << 20
	// maxFile bounds a task file or profile.
	maxFile = 1 << 20
	// maxFiles bounds their number.
	maxFiles = 1000
	// toolTime is how long a tool of the host may take.
	toolTime = 15 * time.Second
)

// Config says what is packed.
type Config struct {
	Scope  string         // of components
	Engine *engine.Engine // nil: there is none, and NoEngine says why
	// NoEngine is why containers are not looked for.
	NoEngine string
	Dirs     []string // with task files and profiles
	Texts    []Text   // what the caller knows
	Now      time.Time
}

// Text is a file of the archive that the caller makes. Of one that it could not make Err says why.
type Text struct {
	Name string
	Data []byte
	Err  error
}

// Row is one file of the archive, or something that is not in it.
type Row struct {
	Name  string // in the archive
	Bytes int
	Note  string // why it is not whole, or not there
	Taken bool
}

// packer is one call of Write.
type packer struct {
	cfg  Config
	tar  *tar.Writer
	rows []Row
}

// Write writes the archive, a tar.gz, and returns what it holds. What can't be had is a row without a file; an error is one of w or the
// end of ctx.
func Write(ctx context.Context, w io.Writer, cfg Config) ([]Row, error) {
	zip := gzip.NewWriter(w)
	p := &packer{cfg: cfg, tar: tar.NewWriter(zip)}
	for _, t := range cfg.Texts {
		if err := p.add(t.Name, t.Data, "", t.Err); err != nil {
			return p.rows, err
		}
	}
	for _, step := range []func(context.Context) error{p.tools, p.processes, p.containers, p.files} {
		if err := step(ctx); err != nil {
			return p.rows, err
		}
		if ctx.Err() != nil {
			return p.rows, context.Cause(ctx)
		}
	}
	if err := errors.Join(p.tar.Close(), zip.Close()); err != nil {
		return p.rows, fmt.Errorf("write archive: %w", err)
	}
	return p.rows, nil
}

// add puts a file into the archive, or says why it is not there.
func (p *packer) add(name string, data []byte, note string, missing error) error {
	if missing != nil {
		p.rows = append(p.rows, Row{Name: name, Note: missing.Error()})
		return nil //nolint:nilerr // it is told in the row
	}
	data = redact(data) // whole: what a secret is may stand before the end
	if len(data) > maxPart {
		data, note = data[len(data)-maxPart:], "its end"
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o600, ModTime: p.cfg.Now, Format: tar.FormatPAX}
	if err := p.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if _, err := p.tar.Write(data); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	p.rows = append(p.rows, Row{Name: name, Bytes: len(data), Note: note, Taken: true})
	return nil
}

// tools asks what the host has installed.
func (p *packer) tools(ctx context.Context) error {
	for _, line := range []string{"uname -a", "id", "docker version", "docker info", "docker ps -a", "podman version", "nvidia-smi"} {
		words := strings.Fields(line)
		data, err := tool(ctx, words)
		if err := p.add("host/"+strings.Join(words, "-")+".txt", data, "", err); err != nil {
			return err
		}
	}
	data, err := tail("/etc/os-release")
	return p.add("host/os-release.txt", data, "", err)
}

// tool runs a program of the host and returns what it says.
func tool(ctx context.Context, words []string) ([]byte, error) {
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, fmt.Errorf("there is no %s here", words[0])
	}
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, words[1:]...)
	cmd.WaitDelay = time.Second
	said := &limited{left: maxPart}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(said, "\n%s: %v\n", strings.Join(words, " "), err)
	}
	return said.data, nil
}

// limited keeps the beginning of what is written.
type limited struct {
	data []byte
	left int
}

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	keep := b[:min(len(b), l.left)]
	l.data, l.left = append(l.data, keep...), l.left-len(keep)
	return len(b), nil
}

// tail returns the last maxPart bytes of a regular file.
func tail(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe of that name is not to be waited for
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if _, err := f.Seek(max(0, info.Size()-maxPart), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxPart))
}

// files takes the task files and profiles of the folders.
func (p *packer) files(ctx context.Context) error {
	taken := 0
	for i, dir := range p.cfg.Dirs {
		var found []string
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil && path == dir:
				return err
			case err != nil:
				return nil //nolint:nilerr // what can't be read below is not there
			case d.Type().IsRegular() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)):
				found = append(found, path)
			}
			if taken+len(found) >= maxFiles {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			if err := p.add(fmt.Sprintf("files/%d", i), nil, "", err); err != nil {
				return err
			}
		}
		taken += len(found)
		for _, path := range found {
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				rel = filepath.Base(path)
			}
			data, err := tail(path)
			if len(data) > maxFile {
				data, err = nil, fmt.Errorf("it has more than %d bytes, so it is no task file", maxFile)
			}
			if err := p.add(fmt.Sprintf("files/%d/%s", i, filepath.ToSlash(rel)), data, "", err); err != nil {
				return err
			}
		}
	}
	return nil
}
