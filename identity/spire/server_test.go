package spire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

func seed(td string) map[string]entry {
	found := map[string]entry{}
	for role, dns := range map[string]string{"sl": "swarm-learning-node", "sn": "swarm-network-node", "swop": "swarm-operator-node", "swci": ""} {
		id := "swarm." + role
		found[id] = entry{
			ID: id, SPIFFEID: "spiffe://" + td + "/swarm/" + role, ParentID: "spiffe://" + td + "/swarm/" + role + "-agent",
			Selectors: "swarm:node-type:" + role, DNS: dns, Revision: "0",
		}
	}
	// An auditor's swarmctl is the same program as an operator's.
	found["swarm.audit"] = entry{
		ID: "swarm.audit", SPIFFEID: "spiffe://" + td + "/swarm/audit", ParentID: "spiffe://" + td + "/swarm/audit-agent",
		Selectors: "swarm:node-type:swci", Revision: "0",
	}
	return found
}

// own is the entry of a node.
func own(td, role, name, dns string) entry {
	return entry{
		ID: "swarm." + role + "." + name, SPIFFEID: "spiffe://" + td + "/swarm/" + role + "/" + name,
		ParentID: "spiffe://" + td + "/swarm/" + role + "-agent/" + name, Selectors: "swarm:node-type:" + role, DNS: dns, Revision: "0",
	}
}

func TestRunServer(t *testing.T) {
	t.Parallel()
	dir := spiretest.TempDir(t)
	nodes := []string{"sl/hospital-a", "swci/Bob_1", "sl/hospital-a"}
	s := start(t, spire.ServerConfig{Nodes: nodes}, dir).ready(t)
	for _, part := range []string{"trust_domain=swarm.learning", "socket=" + s.socket, "spire-token --server-socket " + s.socket + " sl/hospital-a;"} {
		if s.find("SPIRE server is ready", part) == "" {
			t.Errorf("the line that says ready lacks %q: %s", part, s.find("SPIRE server is ready"))
		}
	}
	want := seed("swarm.learning")
	want["swarm.sl.hospital-a"] = own("swarm.learning", "sl", "hospital-a", "swarm-learning-node hospital-a")
	want["swarm.swci.Bob_1"] = own("swarm.learning", "swci", "Bob_1", "") // no name for DNS
	if diff := cmp.Diff(want, s.entries(t, true)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}

	// An operator edits one, deletes two, and puts another in the place of one of those.
	s.tool(t, nil, "entry", "update", "-entryID", "swarm.sn", "-spiffeID", want["swarm.sn"].SPIFFEID, "-parentID", want["swarm.sn"].ParentID,
		"-selector", "swarm:node-type:sn", "-x509SVIDTTL", "77")
	s.tool(t, nil, "entry", "delete", "-entryID", "swarm.sl.hospital-a")
	s.tool(t, nil, "entry", "delete", "-entryID", "swarm.swop")
	s.tool(t, nil, "entry", "create", "-entryID", "mine", "-spiffeID", want["swarm.swop"].SPIFFEID, "-parentID", want["swarm.swop"].ParentID, "-selector", "unix:uid:7")
	edited := s.entries(t, true)
	if len(edited) != len(want)-1 || edited["swarm.sn"].TTL != 77 {
		t.Fatalf("the edits did not work: %v", edited)
	}
	if err := s.stop(t); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if _, err := net.Dial("unix", s.socket); err == nil {
		t.Error("a server still answers after the end")
	}

	s = start(t, spire.ServerConfig{Nodes: nodes}, dir).ready(t)
	if diff := cmp.Diff(edited, s.entries(t, true)); diff != "" {
		t.Errorf("the second start changed entries (-want +got):\n%s", diff)
	}
	if line := s.find("was edited and is left alone"); !strings.Contains(line, "swarm.sn") {
		t.Errorf("of the edited entry it says %q", line)
	}
	if line := s.find("exists under another ID"); !strings.Contains(line, "mine") {
		t.Errorf("of the replaced entry it says %q", line)
	}
	// The command that it names makes the entry that was.
	line := s.find("was deleted and is not made again", "swarm.sl.hospital-a")
	_, command, ok := strings.Cut(line, `command="spire-server `)
	if !ok {
		t.Fatalf("of the deleted entry it says %q", line)
	}
	out, err := exec.CommandContext(t.Context(), s.binary, strings.Fields(strings.TrimSuffix(command, `"`))...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	if diff := cmp.Diff(want["swarm.sl.hospital-a"], s.entries(t, false)["swarm.sl.hospital-a"]); diff != "" {
		t.Errorf("entry that the command made (-want +got):\n%s", diff)
	}
}

// TestNewDatastore holds that entries come back when the server's data was thrown away.
func TestNewDatastore(t *testing.T) {
	t.Parallel()
	dir := spiretest.TempDir(t)
	s := start(t, spire.ServerConfig{}, dir).ready(t)
	if err := s.stop(t); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	s = start(t, spire.ServerConfig{}, dir).ready(t)
	if diff := cmp.Diff(seed("swarm.learning"), s.entries(t, true)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// TestUserConf runs a server from a user's file, with options that win over it.
func TestUserConf(t *testing.T) {
	t.Parallel()
	dir, data := spiretest.TempDir(t), spiretest.TempDir(t)
	conf := filepath.Join(data, "my.conf")
	text := fmt.Sprintf(`server {
  bind_address = "127.0.0.1"
  bind_port = "%d"
  socket_path = "%s/mine.sock"
  trust_domain = "from.file"
  data_dir = "%s"
  log_format = "json"
}
plugins {
  DataStore "sql" { plugin_data { database_type = "sqlite3" connection_string = "%s/x.sqlite3" } }
  KeyManager "memory" { plugin_data {} }
  NodeAttestor "join_token" { plugin_data {} }
}
`, spiretest.FreePort(t), data, data, data)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(spiretest.FreePort(t))
	s := start(t, spire.ServerConfig{ConfigFile: conf, TrustDomain: "example.org", Args: []string{"-serverPort", port, "-logLevel=DEBUG"}}, dir)
	s.socket = filepath.Join(data, "mine.sock")
	s.ready(t)
	if s.find("SPIRE server is ready", "trust_domain=example.org", "port="+port) == "" {
		t.Errorf("got %s", s.find("SPIRE server is ready"))
	}
	if s.find("level=DEBUG", "logger=spire-server") == "" {
		t.Error("-logLevel was not passed on: no line of the server's at DEBUG")
	}
	if diff := cmp.Diff(seed("example.org"), s.entries(t, true)); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, "server.conf")); err == nil {
		t.Error("a default configuration was written beside the user's")
	}
}

// TestEditedDefault holds that the file which swarmd wrote is the user's afterwards.
func TestEditedDefault(t *testing.T) {
	t.Parallel()
	dir := spiretest.TempDir(t)
	if err := start(t, spire.ServerConfig{TrustDomain: "a.example"}, dir).ready(t).stop(t); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "server.conf")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(raw), "api.sock", "other.sock", 1)
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, spire.ServerConfig{}, dir)
	s.socket = filepath.Join(dir, "other.sock")
	s.ready(t)
	if s.find("SPIRE server is ready", "trust_domain=a.example", "other.sock") == "" {
		t.Errorf("got %s", s.find("SPIRE server is ready"))
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != edited {
		t.Errorf("the edited file was changed: %v\n%s", err, now)
	}
}

func TestFederatesWith(t *testing.T) {
	t.Parallel()
	foreign := start(t, spire.ServerConfig{TrustDomain: "b.example"}, spiretest.TempDir(t)).ready(t)
	bundle := foreign.tool(t, nil, "bundle", "show", "-format", "spiffe")

	s := start(t, spire.ServerConfig{TrustDomain: "a.example", FederatesWith: []string{"b.example"}}, spiretest.TempDir(t)).ready(t)
	line := s.await(t, "waiting for the trust bundle")
	if !strings.Contains(line, "spire-server bundle set -socketPath "+s.socket+" -format spiffe -id spiffe://b.example") {
		t.Errorf("the waiting names no command: %s", line)
	}
	if diff := cmp.Diff(seed("a.example"), s.entries(t, true)); diff != "" {
		t.Errorf("entries before the bundle (-want +got):\n%s", diff)
	}
	s.tool(t, nil, "entry", "update", "-entryID", "swarm.sn", "-spiffeID", "spiffe://a.example/swarm/sn", "-parentID", "spiffe://a.example/swarm/sn-agent",
		"-selector", "swarm:node-type:sn", "-x509SVIDTTL", "77")
	s.tool(t, bundle, "bundle", "set", "-format", "spiffe", "-id", "spiffe://b.example")
	s.await(t, "registration entries federate with trust domains", "b.example")
	for id, e := range s.entries(t, true) {
		if want := map[bool]string{true: "", false: "b.example"}[id == "swarm.sn"]; e.FederatesWith != want {
			t.Errorf("%s federates with %q, want %q", id, e.FederatesWith, want)
		}
	}
	line = s.find("is not as swarmd made it", "swarm.sn")
	for _, part := range []string{"entry update", "-entryID swarm.sn", "-x509SVIDTTL 77", "-federatesWith spiffe://b.example"} {
		if !strings.Contains(line, part) {
			t.Errorf("of the edited entry it says %q, want %q in it", line, part)
		}
	}

	// Again: nothing changes, and what swarmd itself changed does not count as edited.
	before := s.entries(t, true)
	if err := s.stop(t); err != nil {
		t.Fatal(err)
	}
	s = start(t, spire.ServerConfig{FederatesWith: []string{"spiffe://b.example"}}, s.dir).ready(t)
	if diff := cmp.Diff(before, s.entries(t, true)); diff != "" {
		t.Errorf("entries after another start (-want +got):\n%s", diff)
	}
	if line := s.find("is not as swarmd made it", "swarm.sl"); line != "" {
		t.Error(line)
	}

	// Killed after the server let an entry federate and before that was recorded.
	if err := s.stop(t); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, "entries.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	forgotten := regexp.MustCompile(`,\s*"federates_with": \[[^\]]*\]`).ReplaceAll(raw, nil)
	if err := os.WriteFile(path, forgotten, 0o600); err != nil || bytes.Equal(forgotten, raw) {
		t.Fatalf("%v, record:\n%s", err, raw)
	}
	s = start(t, spire.ServerConfig{FederatesWith: []string{"b.example"}}, s.dir).ready(t)
	if line := s.find("was edited", "swarm.sl"); line != "" {
		t.Error(line)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, raw) {
		t.Errorf("%v, record:\n%s\nwant:\n%s", err, now, raw)
	}

	// The domain is named no more: it is said how to end it, and what does end it is no edit of an entry.
	if err := s.stop(t); err != nil {
		t.Fatal(err)
	}
	s = start(t, spire.ServerConfig{}, s.dir).ready(t)
	if line := s.await(t, "still federate with", "b.example"); !strings.Contains(line, "bundle delete -socketPath "+s.socket+" -id spiffe://b.example -mode dissociate") {
		t.Errorf("it names no command: %s", line)
	}
	s.tool(t, nil, "bundle", "delete", "-id", "spiffe://b.example", "-mode", "dissociate")
	if err := s.stop(t); err != nil {
		t.Fatal(err)
	}
	s = start(t, spire.ServerConfig{}, s.dir).ready(t)
	for _, text := range []string{"was edited", "still federate"} {
		if line := s.find(text, ""); line != "" && !strings.Contains(line, "swarm.sn") {
			t.Error(line)
		}
	}
}

func TestServerRefusals(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	open := spiretest.TempDir(t)
	if err := os.Chmod(open, 0o750); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(spiretest.TempDir(t), strings.Repeat("x", 100))
	busy := spiretest.TempDir(t)
	start(t, spire.ServerConfig{}, busy).ready(t)
	for name, tc := range map[string]struct {
		cfg  spire.ServerConfig
		dir  string
		want []string
	}{
		"port in use":      {spire.ServerConfig{Args: []string{"-bindAddress", "127.0.0.1", "-serverPort", port}}, "", []string{"port " + port + " is in use", "-serverPort", "last lines"}},
		"node's role":      {spire.ServerConfig{Nodes: []string{"xx/a"}}, "", []string{"--node", "xx", "sn, sl, swop, swci"}},
		"node's name":      {spire.ServerConfig{Nodes: []string{"sl/a b"}}, "", []string{"--node", "a b"}},
		"no name":          {spire.ServerConfig{Nodes: []string{"sl"}}, "", []string{"--node sl", "sl/hospital-a"}},
		"federation":       {spire.ServerConfig{FederatesWith: []string{"no domain"}}, "", []string{"--federates-with"}},
		"no file":          {spire.ServerConfig{ConfigFile: "/nonexistent/x.conf"}, "", []string{"/nonexistent/x.conf"}},
		"trust domain":     {spire.ServerConfig{TrustDomain: "A B"}, "", []string{"trust domain", "A B"}},
		"others may read":  {spire.ServerConfig{}, open, []string{open, "chmod 0700"}},
		"directory in use": {spire.ServerConfig{}, busy, []string{busy, "in use", "--state-dir"}},
		"socket in use":    {spire.ServerConfig{Args: []string{"-socketPath", filepath.Join(busy, "api.sock")}}, "", []string{"another program answers", filepath.Join(busy, "api.sock")}},
		"long socket":      {spire.ServerConfig{}, long, []string{"107", "--state-dir"}},
		"unknown option":   {spire.ServerConfig{Args: []string{"-nonsense"}}, "", []string{"spire-server ended: exit status 1", "nonsense"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.dir == "" {
				tc.dir = spiretest.TempDir(t)
			}
			err := start(t, tc.cfg, tc.dir).wait(t)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q: %v", want, err)
				}
			}
		})
	}
}

// TestServerDies kills the SPIRE server under RunServer.
func TestServerDies(t *testing.T) {
	t.Parallel()
	s := start(t, spire.ServerConfig{}, spiretest.TempDir(t)).ready(t)
	if err := syscall.Kill(childOf(t, os.Getpid(), s.dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := s.wait(t)
	if err == nil || !strings.Contains(err.Error(), "spire-server ended: signal: killed; its last lines:\n  ") {
		t.Errorf("got %v", err)
	}
}

// TestServerDiesWithParent kills a process that runs a server and looks for the server.
func TestServerDiesWithParent(t *testing.T) {
	if dir := os.Getenv("SPIRE_TEST_SERVER"); dir != "" {
		start(t, spire.ServerConfig{}, dir).ready(t)
		fmt.Println("ready")
		select {} // until somebody kills this process
	}
	t.Parallel()
	e2etest.Spire(t, "spire-server")
	dir := spiretest.TempDir(t)
	parent := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestServerDiesWithParent$")
	parent.Env = append(os.Environ(), "SPIRE_TEST_SERVER="+dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	ready, said := false, ""
	for sc := bufio.NewScanner(out); !ready && sc.Scan(); {
		ready = sc.Text() == "ready"
		said += sc.Text() + "\n"
	}
	if !ready {
		t.Fatalf("the parent's server did not become ready; it said:\n%s", said)
	}
	pid := childOf(t, parent.Process.Pid, dir)
	_ = parent.Process.Kill()
	_ = parent.Wait()
	deadline := time.Now().Add(timeout)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(raw), ") Z ") {
			break
		}
		cmdline, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if !strings.Contains(string(cmdline), dir) {
			break // another process has the number now
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("spire-server outlived its parent: %s", raw)
		}
	}
	// Nothing that was left stops the next one.
	start(t, spire.ServerConfig{}, dir).ready(t)
}

// childOf finds the process that a parent started with this directory on its command line.
func childOf(t *testing.T, parent int, dir string) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		raw, _ := os.ReadFile(path)
		_, after, _ := strings.Cut(string(raw), ") ")
		fields := strings.Fields(after)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if strings.Contains(string(cmdline), dir) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	t.Fatalf("process %d has no child for %s", parent, dir)
	return 0
}

func TestJoinToken(t *testing.T) {
	t.Parallel()
	s := start(t, spire.ServerConfig{TrustDomain: "a.example"}, spiretest.TempDir(t)).ready(t)
	api, err := spire.OpenServer(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	token, err := api.JoinToken(t.Context(), []string{"/swarm/sl-agent/hospital-a", "/swarm/swci-agent"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	agent := "spiffe://a.example/spire/agent/join_token/" + token
	aliases := map[string]entry{}
	for id, e := range s.entries(t, true) {
		if strings.HasPrefix(e.ParentID, "spiffe://a.example/spire/") {
			if id == "" {
				t.Error("an alias has no ID")
			}
			e.ID = ""
			aliases[e.SPIFFEID] = e
		}
	}
	want := map[string]entry{}
	for _, id := range []string{"spiffe://a.example/swarm/sl-agent/hospital-a", "spiffe://a.example/swarm/swci-agent"} {
		want[id] = entry{SPIFFEID: id, ParentID: agent, Selectors: "spiffe_id:" + agent, Revision: "0"}
	}
	if diff := cmp.Diff(want, aliases); diff != "" {
		t.Errorf("aliases (-want +got):\n%s", diff)
	}

	pem, td, err := api.Bundle(t.Context())
	if err != nil || td != "a.example" {
		t.Fatalf("bundle: trust domain %q, %v", td, err)
	}
	if diff := cmp.Diff(string(s.tool(t, nil, "bundle", "show")), string(pem)); diff != "" {
		t.Errorf("bundle (-want +got):\n%s", diff)
	}
	for _, tc := range []struct {
		alias string
		ttl   time.Duration
	}{{"/swarm/sl-agent", time.Millisecond}, {"no path", time.Minute}, {"/spire/x", time.Minute}} {
		if token, err := api.JoinToken(t.Context(), []string{tc.alias}, tc.ttl); err == nil {
			t.Errorf("JoinToken(%q, %v) gave %s", tc.alias, tc.ttl, token)
		}
	}
}

func TestOpenServerRefusal(t *testing.T) {
	if s, err := spire.OpenServer(filepath.Join(spiretest.TempDir(t), "none.sock")); err == nil || !strings.Contains(err.Error(), "none.sock") {
		t.Errorf("got %v, %v", s, err)
	}
}

// TestRecordDamaged holds that a damaged record ends the start with a remedy instead of making deleted entries again.
func TestRecordDamaged(t *testing.T) {
	t.Parallel()
	dir := spiretest.TempDir(t)
	raw, err := json.Marshal(map[string]string{"no": "list"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "entries.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(t, spire.ServerConfig{}, dir).wait(t); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("got %v", err)
	}
}
