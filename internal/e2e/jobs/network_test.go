package jobs_test

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// meets are two ranks that find each other by name, at the addresses of a network.
const meets = `import os, socket, time
rank = int(os.environ["SWARM_NODE_RANK"])
names = [socket.gethostbyname("node-%d" % i) for i in range(2)]
assert names == os.environ["SWARM_NODE_IPS"].split()
if rank == 0:
    c, at = socket.create_server((names[0], 7000)).accept()
    c.sendall(b"hello")
    c.close()
    print("rank 0 at", names[0], "met", at[0])
else:
    for _ in range(600):
        try:
            c = socket.create_connection(("node-0", 7000), 1)
            break
        except OSError:
            time.sleep(0.1)
    print("rank 1 at", names[1], "heard", c.makefile().read())
`

// lab gives the engines of hosts 1 and 2 a network of that name, which is one network: a bridge of each, with a cable between. It stands for an overlay, for
// which this machine's kernel has no device.
func (h *hosts) lab(engines ...*engine.Engine) {
	h.T.Helper()
	for i, e := range engines {
		_, err := e.NetworkCreate(h.T.Context(), "lab", network.CreateOptions{
			Internal: true, Options: map[string]string{"com.docker.network.bridge.name": "lab0"}, // which has an address of its own at each
			IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: "10.99.0.0/24", IPRange: fmt.Sprintf("10.99.0.%d/26", 64*(i+1)), Gateway: fmt.Sprintf("10.99.0.%d", i+1)}}},
		})
		if err != nil {
			h.T.Fatal(err)
		}
	}
	at := func(i int) string { return filepath.Base(h.Host(20 + i).Namespace()) }
	for _, words := range [][]string{
		{"-n", at(1), "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", at(2)},
		{"-n", at(1), "link", "set", "cable", "master", "lab0", "up"},
		{"-n", at(2), "link", "set", "cable", "master", "lab0", "up"},
	} {
		if out, err := exec.CommandContext(h.T.Context(), "ip", words...).CombinedOutput(); err != nil {
			h.T.Fatalf("ip %q: %v: %s", words, err, out)
		}
	}
}
