package start

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

const (
	// volumeHome is where a node's container has the volumes with its identity, each under its name.
	volumeHome = "/platform/swarm/identity"
	// agentSocket is what SPIRE's agent calls its socket.
	agentSocket = "api.sock"
)

// profile is the profile's file, and what is in it.
func (o *SWOP) profile() (file string, raw []byte, err error) {
	if file, err = HostFile("profile-file-name", o.ProfilePath()); err != nil {
		return "", nil, err
	}
	if info, err := os.Stat(file); err == nil && info.Size() > yamlfile.MaxFile {
		return "", nil, fmt.Errorf("--profile-file-name: %s: bad file: it has %d bytes, at most %d are read", file, info.Size(), yamlfile.MaxFile)
	}
	if raw, err = os.ReadFile(file); err != nil {
		return "", nil, fmt.Errorf("--profile-file-name: %w", err)
	}
	return file, raw, nil
}

// ReadProfile reads the host's profile, and what is odd in it.
func (o *SWOP) ReadProfile() (*taskfile.Profile, []*yamlfile.Finding, error) {
	file, raw, err := o.profile()
	if err != nil {
		return nil, nil, err
	}
	p, odd, err := taskfile.ReadProfile(file, raw)
	if err == nil {
		err = p.Unfilled()
	}
	return p, odd, err
}

// LookAtProfile says all that keeps the SWOP from starting with its profile, and all that it would warn of, each by line.
func (o *SWOP) LookAtProfile() (wrong, odd []*yamlfile.Finding, err error) {
	file, raw, err := o.profile()
	if err != nil {
		return nil, nil, err
	}
	wrong, odd = taskfile.LookAtProfile(file, raw)
	return wrong, odd, nil
}

// TakeIdentity gives a node that is a process the identity that a SWOP's profile names for it, by paths of this host. It returns an error for
// what is in a volume, of which a host sees no path.
func (n *Node) TakeIdentity(attributes []taskfile.Attribute) error {
	for _, a := range attributes {
		if strings.EqualFold(a.MountType, taskfile.Volume) {
			return fmt.Errorf("its %s is in volume %s, which only containers have: name a path of this host, with mType BIND, or run SLs in containers", a.Kind, a.Src)
		}
		n.has(a.Kind, filepath.Join(a.Src, a.SubPath))
	}
	return nil
}

// TakeMounted is TakeIdentity for a node in a container, which has volumes too. A volume is mounted as a whole and read-only: engines before
// API 1.45 mount no part of one.
func (n *Node) TakeMounted(attributes []taskfile.Attribute) error {
	for _, a := range attributes {
		if !strings.EqualFold(a.MountType, taskfile.Volume) {
			n.has(a.Kind, filepath.Join(a.Src, a.SubPath))
			continue
		}
		inside := a.SubPath
		if inside == "" && a.Kind == "SPIFFE_SOCKETPATH" {
			inside = agentSocket
		}
		home := path.Join(volumeHome, a.Src)
		mount := a.Src + ":" + home + ":ro"
		v, err := engine.ParseVolume(mount)
		switch {
		case err != nil || !v.Named():
			return fmt.Errorf("its %s is in volume %.200q, which is no name of a volume: use letters, digits, _ and -, or a path of this host with mType BIND", a.Kind, a.Src)
		case inside != "" && !filepath.IsLocal(inside):
			return fmt.Errorf("its %s is %.200q of volume %s: write a subPath that lies in the volume", a.Kind, inside, a.Src)
		case inside == "" && a.Kind != "CAPATH":
			return fmt.Errorf("its %s is volume %s as a whole: name the file in it as subPath", a.Kind, a.Src)
		}
		at := path.Join(home, inside)
		n.has(a.Kind, at)
		n.Mounted = append(n.Mounted, at)
		if !slices.Contains(n.Container.Volumes, mount) {
			n.Container.Volumes = append(n.Container.Volumes, mount)
		}
	}
	return nil
}

// has sets a part of the node's identity.
func (n *Node) has(kind, at string) {
	switch kind {
	case "KEY":
		n.Key = at
	case "CERT":
		n.Cert = at
	case "CACERT":
		n.CACert = at
	case "CAPATH":
		n.CAPath = at
	case "SPIFFE_SOCKETPATH":
		n.SocketPath = at
	}
}
