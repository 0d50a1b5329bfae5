package component

import (
	"context"
	"fmt"
	"io/fs"
	"path"

	"github.com/docker/docker/api/types/container"
)

// Plan is what the engine would be asked for.
type Plan struct {
	Config  *container.Config
	Host    *container.HostConfig
	Volumes []string
	User    string
}

// FakeHost is a machine on paper.
type FakeHost struct {
	UID, GID  int
	Files     map[string]FakeFile
	Env       map[string]string
	Local     string // what --host-ip is this host
	ImageUser string
}

// FakeFile is a file on it.
type FakeFile struct {
	Mode     fs.FileMode
	UID, GID int
}

// Build is build on that machine.
func Build(s Spec, f FakeHost) (Plan, error) {
	h := host{
		uid: f.UID, gid: f.GID, imageUser: f.ImageUser,
		getenv: func(k string) string { return f.Env[k] },
		isThis: func(name string) bool { return f.Local != "" && name == f.Local },
		stat: func(p string) (fileInfo, error) {
			if file, ok := f.Files[p]; ok {
				return fileInfo{mode: file.Mode, uid: file.UID, gid: file.GID}, nil
			}
			return fileInfo{}, fmt.Errorf("%s: %w", p, fs.ErrNotExist)
		},
		readDir: func(p string) (inside []string, err error) {
			for name := range f.Files {
				if path.Dir(name) == p {
					inside = append(inside, name)
				}
			}
			return inside, nil
		},
	}
	p, err := build(s, h)
	if err != nil {
		return Plan{}, err
	}
	return Plan{Config: p.config, Host: p.host, Volumes: p.volumes, User: p.user}, nil
}

// IsThisHost is isThisHost.
func IsThisHost(ctx context.Context, name, self, first string, r interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupCNAME(ctx context.Context, host string) (string, error)
},
) bool {
	return isThisHost(ctx, name, self, first, r)
}
