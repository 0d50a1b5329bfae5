package component

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/mount"
)

var volumeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

// userMount reads one -v. As in the original a source on the host is made absolute and must exist, and one without / and .
// is a named volume.
func userMount(text string, h host) (mount.Mount, error) {
	parts := strings.Split(text, ":")
	bad := func(why string) (mount.Mount, error) {
		return mount.Mount{}, fmt.Errorf("-v %s: bad mount: %s", text, why)
	}
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return bad("want HOST-PATH:CONTAINER-PATH[:ro]")
	}
	if !path.IsAbs(parts[1]) {
		return bad(parts[1] + " is no absolute path in the container")
	}
	m := mount.Mount{Type: mount.TypeBind, Source: parts[0], Target: path.Clean(parts[1])}
	if len(parts) == 3 {
		for _, mode := range strings.Split(parts[2], ",") {
			switch mode {
			case "ro", "readonly":
				m.ReadOnly = true
			case "rw", "z", "Z": // SELinux's labels do nothing where there is none
			default:
				return bad("want :ro or :rw, not :" + parts[2])
			}
		}
	}
	if volumeName.MatchString(m.Source) {
		m.Type = mount.TypeVolume
		return m, nil
	}
	source, err := hostPath(m.Source, h)
	if err != nil {
		return bad(err.Error())
	}
	m.Source = source
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
