package metrics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/swop"
	"github.com/swarmd/swarmd/internal/work"
)

const deploy = "../../deploy/prometheus"

// checked runs promtool on a file, or on a folder's, and wants it to find nothing.
func checked(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool: apt-get install prometheus")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestPromtool: the files are what Prometheus takes, and each alert fires in its own test.
func TestPromtool(t *testing.T) {
	checked(t, "check", "config", filepath.Join(deploy, "prometheus.yml"))
	checked(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(deploy, "swarmd.rules.yml"))
	checked(t, "test", "rules", filepath.Join(deploy, "swarmd.rules.test.yml"))
	tests := text(t, filepath.Join(deploy, "swarmd.rules.test.yml"))
	for _, r := range rules(t) {
		if !strings.Contains(tests, "alertname: "+r.Alert+"\n") {
			t.Errorf("%s fires in no test of swarmd.rules.test.yml", r.Alert)
		}
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// rule is an alert.
type rule struct {
	Alert       string
	Expr        string
	Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(text(t, filepath.Join(deploy, "swarmd.rules.yml"))), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("there are no rules")
	}
	return all
}

// shown are the expressions of the dashboard, with all swarms and contracts chosen.
func shown(t *testing.T) (all []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title, Description, Type string
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text(t, filepath.Join(deploy, "grafana-dashboard.json"))), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Type != "row" && (len(p.Targets) == 0 || p.Title == "") {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, x := range p.Targets {
			all = append(all, strings.NewReplacer("$swarm", ".*", "$contract", ".*").Replace(x.Expr))
		}
	}
	return all
}

var (
	metricName = regexp.MustCompile(`\b(?:swarmd|process|go)_[a-z_]+\b`)
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`)
	docLine    = regexp.MustCompile("(?m)^\\| (`swarmd_[^|]+) \\| (gauge|counter|histogram)")
	docName    = regexp.MustCompile("`(swarmd_[a-z_]+)`")
)

// everything is what nodes of all roles together tell, by name, with its type.
func everything(t *testing.T) map[string]string {
	t.Helper()
	s, at := open(t)
	s.Committed()
	g := newGroup()
	s.Raft(g, func(string) planner.Status {
		return planner.Status{Waiting: planner.Waiting{Kind: planner.WaitPeers, Since: time.Unix(1, 0)}}
	})
	g.set(map[string]*state.Node{"sn-1": {Name: "sn-1", Role: "sn"}}, &state.Contract{Name: "study", Run: 1})
	x := &script{}
	s.Exchange(x)
	s.Program(x, x)
	s.Members(func(swop.Given) map[string]work.Type {
		return map[string]work.Type{task.RunJob: {}}
	})(swop.Given{})[task.RunJob].Saw(nil, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	s.API(ln)
	talkToItself(t, s)
	spireAt, answers := openSPIRE(t)
	answers(func(context.Context) (spire.Counts, error) { return spire.Counts{CANotAfter: expires}, nil })
	board, web := openOperators(t)
	all := map[string]string{}
	for _, at := range []string{at, openAuthority(t), spireAt, board, web} {
		for _, m := range typeLine.FindAllStringSubmatch(read(t, at), -1) {
			all[m[1]] = m[2]
		}
	}
	return all
}

// TestRulesAndDashboardUseWhatThereIs: every expression is Prometheus' language, and names only metrics that nodes have.
func TestRulesAndDashboardUseWhatThereIs(t *testing.T) {
	all := everything(t)
	exprs := shown(t)
	for _, r := range rules(t) {
		exprs = append(exprs, r.Expr)
	}
	type record struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var records []record
	used := 0
	for i, expr := range exprs {
		records = append(records, record{fmt.Sprintf("expression:%d", i), expr})
		for _, name := range metricName.FindAllString(expr, -1) {
			used++
			if all[name] == "" && all[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")] != "histogram" {
				t.Errorf("no node has %s, of %s", name, expr)
			}
		}
	}
	if used < len(exprs) {
		t.Errorf("%d names in %d expressions", used, len(exprs))
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": records}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	checked(t, "check", "rules", file)
}

// TestPage: it has every metric with its type and no other one, every alert, and every reason why contracts wait.
func TestPage(t *testing.T) {
	page := text(t, "../../docs/operations/metrics.md")
	want := maps.Collect(maps.All(everything(t)))
	maps.DeleteFunc(want, func(name, _ string) bool { return !strings.HasPrefix(name, "swarmd_") })
	got := map[string]string{}
	for _, line := range docLine.FindAllStringSubmatch(page, -1) {
		for _, name := range docName.FindAllStringSubmatch(line[1], -1) {
			got[name[1]] = line[2]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s is a %s, the page says %q", name, want[name], got[name])
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("the page has %s, and no node", name)
		}
	}
	for _, r := range rules(t) {
		if !strings.Contains(page, "\n### "+r.Alert+"\n") || !strings.HasSuffix(r.Annotations["runbook_url"], "docs/operations/metrics.md#"+strings.ToLower(r.Alert)) || r.Annotations["summary"] == "" {
			t.Errorf("%s has no section, or does not lead to it: %v", r.Alert, r.Annotations)
		}
	}
	for _, kind := range []planner.Kind{
		planner.WaitSessions, planner.WaitPeers, planner.WaitExpected, planner.WaitTraining, planner.WaitMerging, planner.WaitRetry, planner.WaitWeight, planner.WaitRequired, planner.WaitShare, planner.WaitCap,
		planner.WaitMethod, planner.WaitOwners, planner.WaitWitnesses, planner.WaitRefusal, planner.WaitApart, planner.WaitModel, planner.WaitProof, planner.WaitPaused, planner.WaitCommand, planner.WaitCompleted,
	} {
		if !strings.Contains(page, "`"+string(kind)+"`") {
			t.Errorf("the page does not say what a contract waits for that waits for %s", kind)
		}
	}
}
