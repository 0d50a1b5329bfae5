package container

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// volumeName is what engines take for the name of a volume.
var volumeName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// userMount is a parsed --ml-v.
type userMount struct {
	source   string // an absolute path on the host, or a volume's name
	target   string
	readOnly bool
}

func (m userMount) volume() bool { return !filepath.IsAbs(m.source) }

func parseMount(s string) (userMount, error) {
	bad := func(why string) (userMount, error) {
		return userMount{}, problem("write SOURCE:TARGET or SOURCE:TARGET:ro", "bad mount --ml-v %s: %s", s, why)
	}
	v, err := engine.ParseVolume(s)
	if err != nil {
		return bad(err.Error())
	}
	m := userMount{source: v.Source, target: v.Target, readOnly: v.ReadOnly}
	switch {
	case strings.ContainsAny(v.Mode, "zZ"):
		return userMount{}, problem("give --ml-security-opt label=disable instead", "bad mount --ml-v %s: the mode %s is neither ro nor rw; files are not labelled anew for SELinux", s, v.Mode)
	case filepath.IsAbs(m.source):
		m.source = filepath.Clean(m.source)
	case !volumeName.MatchString(m.source):
		return bad("the source is neither an absolute path nor the name of a volume")
	}
	return m, nil
}

// mounts returns everything that the container gets from the host.
func (s Spec) mounts() ([]mount.Mount, error) {
	var list []mount.Mount
	var errs []error
	add := func(source, target string, readOnly bool) {
		m := mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly}
		if !filepath.IsAbs(source) {
			m.Type = mount.TypeVolume
		}
		list = append(list, m)
	}
	for _, own := range []struct {
		source, target string
		readOnly       bool
	}{
		{s.DataDir, engine.DataDir, true},
		{s.ModelDir, engine.ModelDir, false},
		{s.BridgeDir, engine.BridgeDir, false},
		{s.Spill, engine.SpillDir, false},
	} {
		if own.source != "" {
			add(own.source, own.target, own.readOnly)
		}
	}
	for _, dir := range s.Own {
		list = append(list, mount.Mount{Type: mount.TypeVolume, Target: dir})
	}
	for _, text := range s.Mounts {
		m, err := parseMount(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if slices.ContainsFunc(list, func(o mount.Mount) bool { return o.Target == m.target }) {
			errs = append(errs, problem("choose another target", "bad mount --ml-v %s: %s is mounted already", text, m.target))
			continue
		}
		add(m.source, m.target, m.readOnly)
	}
	return list, together(errs...)
}

// engineSockets are where a container engine is reached, each with what symbolic links make of it as far as this process
// sees them. Who reaches the engine is root on the host.
func engineSockets(host string) []string {
	list := []string{
		"/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/docker/containerd/containerd.sock",
		"/run/crio/crio.sock",
	}
	for _, pattern := range []string{"/run/user/*/docker.sock", "/run/user/*/podman/podman.sock"} {
		found, _ := filepath.Glob(pattern) // the pattern is good
		list = append(list, found...)
	}
	if u, err := url.Parse(host); err == nil && u.Scheme == "unix" && u.Path != "" {
		list = append(list, canonical(u.Path))
	}
	for _, p := range list {
		if target, err := filepath.EvalSymlinks(p); err == nil {
			list = append(list, target)
		}
	}
	return list
}

// canonical cleans a path of the host and follows the link that /var/run is on every current system.
func canonical(p string) string {
	p = filepath.Clean(p)
	if rest, ok := strings.CutPrefix(p, "/var/run"); ok && (rest == "" || rest[0] == '/') {
		return "/run" + rest
	}
	return p
}

var runtimeSocket = regexp.MustCompile(`^/run/user/[0-9]+(/docker\.sock|/podman|/podman/podman\.sock)?$`)

// refuseSockets refuses to mount an engine's socket, or a directory that it lies in. Links that only the host sees are found
// by the probe, inside.
func refuseSockets(host string, list []mount.Mount) error {
	sockets := engineSockets(host)
	var errs []error
	for _, m := range list {
		if m.Type != mount.TypeBind {
			continue
		}
		sources := []string{canonical(m.Source)}
		if target, err := filepath.EvalSymlinks(m.Source); err == nil {
			sources = append(sources, target)
		}
		for _, source := range sources {
			within := func(socket string) bool {
				return socket == source || source == "/" || strings.HasPrefix(socket, source+"/")
			}
			if slices.ContainsFunc(sockets, within) || runtimeSocket.MatchString(source) {
				errs = append(errs, errSocket(m.Source))
				break
			}
		}
	}
	return together(errs...)
}

func errSocket(source string) error {
	return problem("mount something else", "mounting %s is refused: it gives the program the container engine's socket, and with it root on this host", source)
}

// missingSources finds what is to be mounted and is not there, for engines that would make a directory instead. In a
// component's container it can not tell: sources lie on the host, and who started the component looked at them.
func missingSources(list []mount.Mount) error {
	if os.Getenv("SWARM_IN_CONTAINER") != "" {
		return nil
	}
	var errs []error
	for _, m := range list {
		if _, err := os.Stat(m.Source); m.Type == mount.TypeBind && errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, problem("create it, or correct the option that names it", "mount source %s does not exist", m.Source))
		}
	}
	return together(errs...)
}

// parseDevice reads HOSTPATH[:PATH[:rwm]].
func parseDevice(s string) (container.DeviceMapping, error) {
	parts := strings.Split(s, ":")
	d := container.DeviceMapping{PathOnHost: parts[0], PathInContainer: parts[0], CgroupPermissions: "rwm"}
	var err error
	switch {
	case len(parts) > 3:
		err = errors.New("it has more than three parts")
	case !filepath.IsAbs(parts[0]):
		err = errors.New("its path is not absolute")
	}
	permissions := func(p string) bool { return p != "" && strings.Trim(p, "rwm") == "" }
	if len(parts) == 2 && permissions(parts[1]) {
		d.CgroupPermissions = parts[1]
	} else if len(parts) >= 2 {
		d.PathInContainer = parts[1]
		if err == nil && !path.IsAbs(parts[1]) {
			err = errors.New("its path inside is not absolute")
		}
	}
	if len(parts) == 3 {
		d.CgroupPermissions = parts[2]
		if err == nil && !permissions(parts[2]) {
			err = errors.New("its permissions are not of r, w and m")
		}
	}
	if err != nil {
		return d, problem("write HOSTPATH[:PATH[:rwm]], such as /dev/kfd", "bad device --ml-device %s: %w", s, err)
	}
	return d, nil
}
