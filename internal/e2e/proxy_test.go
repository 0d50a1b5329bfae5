package e2e_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// proxyPlace is the number of the proxy's address among those of a swarm.
const proxyPlace = 250

// proxied is a swarm whose nodes reach each other through a reverse proxy only, as docs/quickstart-hpe.md has it: all names are the proxy's,
// and there is no other way, since links between the nodes are cut.
type proxied struct {
	*swarm
	proxy *e2etest.Proc
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	w := &proxied{swarm: newSwarm(t)}
	w.InNamespaces()
	places, names, routes := []int{1, 2, 3, 11, 12}, []string{}, []string{}
	for i := 1; i <= 3; i++ {
		api := fmt.Sprintf("api.sn%d.test", i)
		names = append(names, api, fmt.Sprintf("p2p.sn%d.test", i))
		routes = append(routes, api+"="+w.Addr(i)+":30304", w.passed(i, snPorts(i).p2p), w.passed(i, snPorts(i).fs))
	}
	for i := 1; i <= 2; i++ {
		names = append(names, fmt.Sprintf("fs.sl%d.test", i))
		routes = append(routes, w.passed(10+i, 16000+i))
	}
	for k, i := range places {
		for _, j := range places[k+1:] {
			if err := w.Host(i).Cut(w.Host(j)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Names(map[int][]string{proxyPlace: names})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.proxy = w.Start(proxyPlace, "proxy", append([]string{self, "reverse-proxy"}, routes...)...)
	w.proxy.Sees("the proxy listens")
	return w
}

// passed is the route of a port that the proxy passes through as it is.
func (w *proxied) passed(i, port int) string {
	return fmt.Sprintf("%d=%s:%d", port, w.Addr(i), port)
}

type ports struct{ p2p, fs int }

// snPorts are those of SN i, which differ since all have the proxy's address.
func snPorts(i int) ports { return ports{30293 + 10*i, 30295 + 10*i} }

// sn starts SN i with the options of the page.
func (w *proxied) sn(i int) *e2etest.Proc {
	w.T.Helper()
	args := []string{
		"swarmd", "run-sn", fmt.Sprintf("--name=sn-%d", i), fmt.Sprintf("--sn-api-service=api.sn%d.test", i),
		fmt.Sprintf("--sn-p2p-service=p2p.sn%d.test:%d", i, snPorts(i).p2p), fmt.Sprintf("--sn-fs-port=%d", snPorts(i).fs),
		"--identity=embedded=" + w.Path("ca"), "--state-dir=" + w.Path(fmt.Sprintf("sn%d", i)), "--full-quorum-wait=2s", "--found-at-once",
	}
	if i == 1 {
		args = append(args, "--sentinel")
	} else {
		args = append(args, "--sentinel-api-service=api.sn1.test")
	}
	return w.Start(i, fmt.Sprintf("sn-%d", i), args...)
}

// sl starts SL i, which is told of SN 1's API only.
func (w *proxied) sl(i int, extra ...string) *e2etest.Proc {
	w.T.Helper()
	model := w.Path(fmt.Sprintf("model%d", i))
	w.CopyProgram(model)
	return w.Start(10+i, fmt.Sprintf("sl-%d", i), append([]string{
		"swarmd", "run-sl", fmt.Sprintf("--name=sl-%d", i), "--sn-api-service=api.sn1.test", fmt.Sprintf("--sl-fs-service=fs.sl%d.test:%d", i, 16000+i),
		"--identity=embedded=" + w.Path("ca"), "--state-dir=" + w.Path(fmt.Sprintf("sl%d", i)), "--bridge-dir=" + w.Bridge(i),
		"--model-dir=" + model, "--model-program=train.py", "--sl-platform=PYT", "--python=" + e2etest.Python,
		"-e", fmt.Sprintf("SEED=%d", i), "-e", "SWARM_METRICS_FILE=" + w.Metrics(i),
	}, extra...)...)
}

// TestReverseProxy: a swarm behind one address trains. Its SLs know one SN by name, learn the names of the others, and go on through them
// when the first is dead.
func TestReverseProxy(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newProxied(t)
	w.authority()
	var sns, sls []*e2etest.Proc
	sns = append(sns, w.sn(1))
	sns[0].Sees(apiMarker) // the others would ask once a second
	sns = append(sns, w.sn(2), w.sn(3))
	for _, p := range sns {
		p.Sees(apiMarker)
	}
	for i := 1; i <= 2; i++ {
		sls = append(sls, w.sl(i, "-e", "BATCHES=8", "-e", "BATCH_SECONDS=0.1", "--expected-peers=2"))
	}
	for i, sl := range sls {
		sl.Sees("model handed to the program", " round=2 ")
		w.proxy.Sees(fmt.Sprintf("%s to api.sn1.test\n", w.Addr(11+i)))
	}
	sns[0].Kill()
	for i, sl := range sls {
		w.proxy.Sees(fmt.Sprintf("%s to api.sn2.test\n", w.Addr(11+i)))
		if code := sl.Exits(); code != 0 {
			t.Errorf("sl-%d: exit code %d, want 0", i+1, code)
		}
	}
	if e := w.Agree(1, 2); e.Rounds != 6 {
		t.Errorf("got %d rounds, want 6: the first model, four merges, the final one", e.Rounds)
	}
	for _, name := range []string{"api.sn2.test", "api.sn3.test"} {
		check := w.Start(12, "check", "swarmctl", "identity", "check", name+":443", "--identity=embedded="+w.Path("ca"))
		if code := check.Exits(); code != 0 {
			t.Errorf("swarmctl identity check %s: exit code %d\n%s", name, code, check.Output())
		}
	}
	if strings.Contains(w.proxy.Output(), "no route") {
		t.Errorf("the proxy was asked for what it does not serve:\n%s", w.proxy.Output())
	}
}

// reverseProxy listens on all addresses of its namespace until it is killed. A route is NAME=ADDRESS, to which connections at port 443 go
// whose TLS hello names NAME, or PORT=ADDRESS. It says who connects to what.
func reverseProxy(routes []string) int {
	to := map[string]string{} // by name or port
	ports := map[string]bool{"443": true}
	for _, r := range routes {
		from, node, _ := strings.Cut(r, "=")
		to[from] = node
		if !strings.Contains(from, ".") {
			ports[from] = true
		}
	}
	for port := range ports {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go route(c, port, to)
			}
		}()
	}
	fmt.Println("the proxy listens")
	select {}
}

// route passes a connection on, by its port or, at 443, by the name in its TLS hello.
func route(c net.Conn, to string, routes map[string]string) {
	defer c.Close()
	var hello []byte
	if to == "443" {
		to, hello = serverName(c)
	}
	from, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	if routes[to] == "" {
		fmt.Printf("%s has no route to %q\n", from, to)
		return
	}
	fmt.Printf("%s to %s\n", from, to)
	node, err := net.Dial("tcp", routes[to])
	if err != nil {
		return
	}
	defer node.Close()
	if _, err := node.Write(hello); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(c, node)
		_ = c.Close()
	}()
	_, _ = io.Copy(node, c)
}

// listening is a connection of which is heard, and to which nothing is said.
type listening struct {
	net.Conn
	heard io.Reader
}

func (l listening) Read(b []byte) (int, error)  { return l.heard.Read(b) }
func (l listening) Write(b []byte) (int, error) { return len(b), nil }

// serverName reads a TLS hello, which it returns with the name in it.
func serverName(c net.Conn) (name string, hello []byte) {
	var read bytes.Buffer
	_ = tls.Server(listening{c, io.TeeReader(c, &read)}, &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, errors.New("the name is all")
	}}).Handshake() // never made
	return name, read.Bytes()
}
