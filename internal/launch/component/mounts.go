package component

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/docker/docker/api/types/mount"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// userMount reads one -v. As in the original a source on the host is made absolute and must exist, and one without / and .
// is a named volume. SELinux's labels do nothing where there is none.
func userMount(text string, h host) (mount.Mount, error) {
	v, err := engine.ParseVolume(text)
	if err != nil {
		return mount.Mount{}, fmt.Errorf("-v %s: bad mount: %w", text, err)
	}
	m := mount.Mount{Type: mount.TypeVolume, Source: v.Source, Target: v.Target, ReadOnly: v.ReadOnly}
	if v.Named() {
		return m, nil
	}
	m.Type = mount.TypeBind
	if m.Source, err = hostPath(v.Source, h); err != nil {
		return mount.Mount{}, fmt.Errorf("-v %s: bad mount: %w", text, err)
	}
	return m, nil
}

// hostPath makes a path absolute; it must exist.
func hostPath(p string, h host) (string, error) {
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	if _, err := h.stat(abs); err != nil {
		return "", errors.New(p + ": no such file or directory on this host")
	}
	return abs, nil
}

// bind mounts a path of the host at the same place.
func bind(p string, readOnly bool) mount.Mount {
	return mount.Mount{Type: mount.TypeBind, Source: p, Target: p, ReadOnly: readOnly}
}

// withoutTwins drops a mount whose target is mounted already, and fails if the two differ.
func withoutTwins(mounts []mount.Mount) ([]mount.Mount, error) {
	var out []mount.Mount
	for _, m := range mounts {
		i := slices.IndexFunc(out, func(o mount.Mount) bool { return o.Target == m.Target })
		switch {
		case i < 0:
			out = append(out, m)
		case out[i].Source != m.Source:
			return nil, fmt.Errorf("bad mount: both %s and %s are to be mounted at %s: give each a place of its own", out[i].Source, m.Source, m.Target)
		default:
			out[i].ReadOnly = out[i].ReadOnly && m.ReadOnly
		}
	}
	return out, nil
}
