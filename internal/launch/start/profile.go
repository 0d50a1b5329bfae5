package start

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/internal/taskfile"
)

// TakeIdentity gives a node the identity that a SWOP's profile names for it, by paths of this host. It returns an error for what is in a
// volume, of which a host sees no path.
func (n *Node) TakeIdentity(attributes []taskfile.Attribute) error {
	for _, a := range attributes {
		if strings.EqualFold(a.MountType, taskfile.Volume) {
			return fmt.Errorf("its %s is in volume %s: name a path of this host, with mType BIND", a.Kind, a.Src)
		}
		at := filepath.Join(a.Src, a.SubPath)
		switch a.Kind {
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
	return nil
}
