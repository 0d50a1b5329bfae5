package docker_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The order in which the original's page starts things, in containers, with a real PyTorch program: SPIRE server, Sentinel,
// SN, two SLs; wait; the same model everywhere; SWCI; stop-swarm, after which nothing of ours is left.
func TestThePagesOrder(t *testing.T) {
	s := newSite(t)
	s.makeNet()
	s.shards(2)
	server, sentinel, second, metrics := s.name("spire"), s.name("sn1"), s.name("sn2"), unused(t)

	s.runs("run-apls", "--apls-port=5814")
	s.runs("run-spire-server", "-d", "--name", server, "--network", s.net)
	s.runs("run-sn", "-d", "--name", sentinel, "--network="+s.net, "--host-ip="+sentinel, "--sentinel-ip="+sentinel,
		"-genJoinToken", "--spire-docker-name", server, "-serverAddress", server, "--metrics", metrics)
	s.runs("run-sn", "-d", "--name", second, "--net", s.net, "--host-ip", second, "--sentinel-ip", sentinel, "-genJoinToken", "--spire-docker-name", server)
	sls := []string{s.name("sl1"), s.name("sl2")}
	for i, name := range sls {
		s.runs("run-sl", "-d", "--name", name, "--network", s.net, "--host-ip", name, "--sn-ip", []string{sentinel, second}[i], "-genJoinToken",
			"--data-dir", s.path("shards", string(rune('0'+i))), "--model-dir", s.path("model"+string(rune('0'+i))), "--model-program=train.py",
			"--sl-platform=pYt", "-e", "MIN_PEERS=2", "-e", "MAX_EPOCHS=2")
	}
	var digests []string
	for i, name := range sls {
		code, log := s.waits(name)
		if code != 0 {
			t.Fatalf("%s ended with exit code %d:\n%s", name, code, log)
		}
		digests = append(digests, finalDigest(t, name, log))
		if own, err := os.ReadFile(s.path("model"+string(rune('0'+i)), "train_sw.log")); err != nil || len(own) == 0 {
			t.Errorf("the program's log of %s: %d bytes, %v", name, len(own), err)
		}
		if _, err := os.Stat(s.path("model"+string(rune('0'+i)), "model.pt")); err != nil {
			t.Errorf("%s saved no model: %v", name, err)
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("the final models differ: %v", digests)
	}
	s.tellsOnLoopback(metrics, sentinel)
	s.swci(sentinel, server)
	s.stopsClean()
}

// unused is a loopback address with a port that nobody has.
func unused(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// tellsOnLoopback wants a container's metrics at an address of this host's loopback, for who names it by address alone.
func (s *site) tellsOnLoopback(at, node string) {
	s.t.Helper()
	for host, want := range map[string]int{at: http.StatusOK, "rebound.example": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+at+"/metrics", http.NoBody)
		if err != nil {
			s.t.Fatal(err)
		}
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		told, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != want || want == http.StatusOK && !strings.Contains(string(told), `swarmd_node_info{name="`+node+`",role="sn"} 1`) {
			s.t.Errorf("metrics of %s for %s: %d, %v\n%s", node, host, res.StatusCode, err, told)
		}
	}
}

// swci asks the swarm by a script in the user's directory, as the page does at its end.
func (s *site) swci(sn, server string) {
	s.t.Helper()
	usr := s.path("usr")
	if err := os.MkdirAll(usr, 0o755); err != nil {
		s.t.Fatal(err)
	}
	script := "EXIT ON FAILURE\ncreate context example " + sn + "\nswitch context example\nlist nodes\nGET CONTRACT STATUS defaultbb.cqdb.sml.hpe\nEXIT\n"
	if err := os.WriteFile(filepath.Join(usr, "swci-init"), []byte(script), 0o644); err != nil {
		s.t.Fatal(err)
	}
	out := s.runs("run-swci", "--usr-dir", usr, "--network", s.net, "-genJoinToken", "-serverAddress", server, "--spire-docker-name", server)
	for _, want := range []string{"SWCI:", s.name("sl1"), s.name("sl2"), "container, no network"} {
		if !strings.Contains(out, want) {
			s.t.Errorf("SWCI does not say %q:\n%s", want, out)
		}
	}
}

// finalDigest is the digest of the final model that an SL says its program has.
func finalDigest(t *testing.T, name, log string) string {
	t.Helper()
	m := regexp.MustCompile(`final model is with the program.*digest=([0-9a-f]{64})`).FindStringSubmatch(log)
	if m == nil {
		t.Fatalf("%s names no final model:\n%s", name, log)
	}
	return m[1]
}

// shards makes the digits example's program and data for n peers.
func (s *site) shards(n int) {
	s.t.Helper()
	split := exec.CommandContext(s.t.Context(), "/usr/bin/python3", "../../../examples/digits-pyt/split.py", "--peers", string(rune('0'+n)), "--out", s.path("shards"))
	if out, err := split.CombinedOutput(); err != nil {
		s.t.Fatalf("split the digits: %v\n%s", err, out)
	}
	program, err := os.ReadFile("../../../examples/digits-pyt/train.py")
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range n {
		dir := s.path("model" + string(rune('0'+i)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "train.py"), program, 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *site) path(elem ...string) string { return filepath.Join(append([]string{s.dir}, elem...)...) }

// stopsClean stops everything by the script, twice, and wants nothing of ours to be left at the engine.
func (s *site) stopsClean() {
	s.t.Helper()
	if out := s.runs("stop-swarm"); !strings.Contains(strings.ToLower(out), "stop") {
		s.t.Errorf("stop-swarm says %q", out)
	}
	s.nothingLeft()
	s.runs("stop-swarm") // there is nothing to stop, and that is well
}
