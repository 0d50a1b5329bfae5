package jobs_test

import "github.com/swarmd/swarmd/internal/launch/enginetest"

// atStore are two ranks that do what Horovod's library does before it is initialised, and say what their host's name leads to.
const atStore = `import os, socket, time, urllib.error, urllib.request
rank, own = os.environ["HOROVOD_RANK"], os.environ["SWARM_NODE_IP"]
at = "http://%s:%s/global/" % (os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
web = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def ask(method, key, body=None):
    try:
        return web.open(urllib.request.Request(at + key, body, method=method), timeout=10).read().decode()
    except urllib.error.HTTPError as e:
        assert e.code == 404, e
ask("PUT", rank, own.encode())
others = [str(i) for i in range(int(os.environ["HOROVOD_SIZE"])) if str(i) != rank]
met = {}
for _ in range(600):
    met = {i: ask("GET", i) for i in others}
    if all(met.values()):
        break
    time.sleep(0.1)
assert socket.gethostbyname(socket.gethostname()) == own, socket.gethostname()
print("rank", rank, "at", own, "met", met, "epoch", os.environ["SWARM_EPOCH"], flush=True)
if rank == "0":
    while ask("GET", "done") is None:
        time.sleep(0.1)
else:
    ask("PUT", "done", b"x")
    if os.environ["SWARM_EPOCH"] == "0":
        raise SystemExit("as it should")
`

// atTheStore has ranks in containers meet as Horovod's do, in each network that members may have. The second epoch begins with an empty store.
func (h *hosts) atTheStore() {
	h.T.Helper()
	const two = "framework: horovod\nimage: " + enginetest.TestImage + "\ncommand: p.py\nreplicas: 2\ngrace: 1s\nrestarts: 1\n"
	for name, network := range map[string]string{"own": "network: host\n", "shared": "network: lab\n", "private": "hosts: [swop-1]\n"} {
		h.says(0, "run job -f "+h.job(name, atStore, two+network), "restart 1 of 1", "/node/0: rank 0 at ", "/node/1: rank 1 at ", "epoch 1", "job "+name+" succeeded")
	}
}
