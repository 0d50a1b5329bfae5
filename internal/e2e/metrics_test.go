package e2e_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// prometheus is a real one that scrapes a swarm.
type prometheus struct {
	w     *swarm
	url   string
	fired map[string]bool // by alert
}

// metricsAt is where node i serves its metrics.
func (w *swarm) metricsAt(i int) string { return w.Addr(i) + ":9464" }

// prometheus starts one that scrapes these addresses often, with the rules of deploy/prometheus, in which all that takes minutes is made short.
func (w *swarm) prometheus(targets ...string) *prometheus {
	w.T.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		w.T.Skip("needs Prometheus: apt-get install prometheus")
	}
	rules, err := os.ReadFile("../../deploy/prometheus/swarmd.rules.yml")
	if err != nil {
		w.T.Fatal(err)
	}
	short := regexp.MustCompile(`(?m)^( *for:) \d+m$`).ReplaceAllString(string(rules), "$1 1s")
	short = strings.Replace(short, "[15m])) > 3", "[15m])) > 0", 1)
	short = strings.Replace(short, "[2m])", "[2s])", 1)
	if strings.Count(short, "for: 1s") < 5 || !strings.Contains(short, " > 0") || !strings.Contains(short, "[2s])") {
		w.T.Fatal("the rules have another form: they are not made short")
	}
	config := fmt.Sprintf("global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yml]\nscrape_configs:\n- job_name: swarmd\n  static_configs: [{targets: [%q], labels: {swarm: e2e}}]\n",
		strings.Join(targets, `", "`))
	config = strings.ReplaceAll(config, `\"`, `"`)
	for name, text := range map[string]string{"rules.yml": short, "prometheus.yml": config} {
		if err := os.WriteFile(w.Path(name), []byte(text), 0o600); err != nil {
			w.T.Fatal(err)
		}
	}
	at := w.Addr(200) + ":9090"
	p := w.Start(200, "prometheus", path, "--config.file="+w.Path("prometheus.yml"), "--storage.tsdb.path="+w.Path("tsdb"), "--web.listen-address="+at)
	p.Sees("Server is ready to receive web requests")
	return &prometheus{w, "http://" + at, map[string]bool{}}
}

// ask asks its API for something.
func (p *prometheus) ask(path string, data any) error {
	c := http.Client{Timeout: 5 * time.Second}
	res, err := c.Get(p.url + "/api/v1/" + path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// sample is one of a query's.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

// query returns what an expression is now.
func (p *prometheus) query(expr string) []sample {
	p.w.T.Helper()
	var data struct{ Result []sample }
	if err := p.ask("query?query="+url.QueryEscape(expr), &data); err != nil {
		p.w.T.Fatalf("%s: %v", expr, err)
	}
	return data.Result
}

// firing returns the alerts that fire, with what they are about.
func (p *prometheus) firing() map[string][]map[string]string {
	p.w.T.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if err := p.ask("alerts", &data); err != nil {
		p.w.T.Fatal(err)
	}
	found := map[string][]map[string]string{}
	for _, a := range data.Alerts {
		if a.State == "firing" {
			found[a.Labels["alertname"]] = append(found[a.Labels["alertname"]], a.Labels)
		}
	}
	return found
}

// until is Until for what is asked of Prometheus, which learns nothing new between two scrapes.
func (p *prometheus) until(what string, is func() bool) {
	p.w.T.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	p.w.Until(what, func() bool {
		<-tick.C
		return is()
	})
}

// fires waits until an alert fires that has a label.
func (p *prometheus) fires(alert, label, value string) {
	p.w.T.Helper()
	p.until(fmt.Sprintf("alert %s with %s=%s", alert, label, value), func() bool {
		return slices.ContainsFunc(p.firing()[alert], func(l map[string]string) bool { return l[label] == value })
	})
	p.fired[alert] = true
}

// allFired wants each alert that there is to have been waited for.
func (p *prometheus) allFired() {
	p.w.T.Helper()
	var data struct {
		Groups []struct{ Rules []struct{ Name string } }
	}
	if err := p.ask("rules", &data); err != nil {
		p.w.T.Fatal(err)
	}
	if len(data.Groups) == 0 {
		p.w.T.Error("Prometheus has no rules")
	}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if !p.fired[r.Name] {
				p.w.T.Errorf("nothing here has caused %s", r.Name)
			}
		}
	}
}

// issue signs a certificate with the key of the swarm's authority, for an hour of which all but some minutes are over.
func (w *swarm) issue(id string, left time.Duration) (options []string) {
	w.T.Helper()
	raw, err := os.ReadFile(w.Path("ca", "ca.pem"))
	if err != nil {
		w.T.Fatal(err)
	}
	var ca *x509.Certificate
	var signer crypto.Signer
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			ca = cert
		} else if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
			signer = key
		}
	}
	if ca == nil || signer == nil {
		w.T.Fatal("the authority's file has another form")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.T.Fatal(err)
	}
	uri, err := url.Parse(id)
	if err != nil {
		w.T.Fatal(err)
	}
	ends := time.Now().Add(left)
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "late"}, NotBefore: ends.Add(-time.Hour), NotAfter: ends, URIs: []*url.URL{uri},
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca, key.Public(), signer)
	if err != nil {
		w.T.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.T.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{
		"late.pem": {Type: "CERTIFICATE", Bytes: cert}, "late-key.pem": {Type: "PRIVATE KEY", Bytes: der}, "late-ca.pem": {Type: "CERTIFICATE", Bytes: ca.Raw},
	} {
		if err := os.WriteFile(w.Path(name), pem.EncodeToMemory(b), 0o600); err != nil {
			w.T.Fatal(err)
		}
	}
	return []string{"--cert", w.Path("late.pem"), "--key", w.Path("late-key.pem"), "--cacert", w.Path("late-ca.pem")}
}

// shown is what a panel of the dashboard shows.
type shown struct {
	expr   string   // with all swarms and contracts chosen
	labels []string // that its legend names
}

// choice is what Grafana asks Prometheus for the values of one of the dashboard's variables.
type choice struct{ metric, label string }

// dashboard is what the dashboard's panels show, and what can be chosen.
func dashboard(t *testing.T) (all []shown, choices []choice) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "grafana-dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Templating struct {
			List []struct {
				Type  string
				Query json.RawMessage
			}
		}
		Panels []struct {
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(q.Query)
		if m == nil {
			t.Fatalf("a variable is asked for by %s", q.Query)
		}
		choices = append(choices, choice{m[1], m[2]})
	}
	for _, p := range d.Panels {
		for _, x := range p.Targets {
			one := shown{expr: strings.NewReplacer("$swarm", ".*", "$contract", ".*").Replace(x.Expr)}
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(x.LegendFormat, -1) {
				one.labels = append(one.labels, m[1])
			}
			all = append(all, one)
		}
	}
	return all, choices
}

// freePort is one that nobody listens on, on all addresses.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// operators starts a dashboard and SWCI in web mode, and returns where they serve their metrics.
func (w *swarm) operators() (dashboard, programs string) {
	w.T.Helper()
	dashboard, programs = w.metricsAt(22), w.metricsAt(23)
	by := []string{"--sn", w.Addr(1) + ":30304", "--identity", "embedded=" + w.Path("ca")}
	w.Start(22, "dashboard", append([]string{"swarmctl", "dashboard", "--listen", w.Addr(22) + ":30309", "--metrics", dashboard}, by...)...).Sees("dashboard: http")
	w.Start(23, "web", append([]string{"swarmctl", "run-swci", "--web", "--web-port", freePort(w.T), "--metrics", programs}, by...)...).Sees("SWCI WEB MODE")
	return dashboard, programs
}

// TestPrometheusScrapesASwarm: a real Prometheus reads three SNs, three SLs that train, a SWOP that runs a job, the authority, a dashboard and SWCI in web mode. Every panel of
// the dashboard shows something, no alert fires while all is well, and each fires for what causes it. What each tells is what promtool takes.
func TestPrometheusScrapesASwarm(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	issuer := w.metricsAt(30)
	e2etest.Start(t, "authority", w.Dir, nil, "swarmd", "run-authority", "--dir", w.Path("ca"), "--metrics", issuer).Sees("embedded authority started")
	var sns, sls []*e2etest.Proc
	var targets []string
	for i := 1; i <= 3; i++ {
		sns = append(sns, w.SN(i, "--metrics", w.metricsAt(i)))
		targets = append(targets, w.metricsAt(i), w.metricsAt(10+i))
	}
	late, host := w.metricsAt(14), w.metricsAt(21)
	for _, p := range sns {
		p.Sees(apiMarker)
	}
	board, programs := w.operators()
	targets = append(targets, host, issuer, board, programs)
	prom := w.prometheus(append(targets, late)...)
	for i := 1; i <= 3; i++ {
		batch := "BATCH_SECONDS=0.05"
		if i == 2 {
			batch = "BATCH_SECONDS=0.5" // the others wait for it
		}
		sls = append(sls, w.SL(i, "MIN_PEERS=3", "BATCHES=100000", batch, "--expected-peers=3", "--stall-grace=1s", "--metrics="+w.metricsAt(10+i)))
	}
	w.swop(1, "--metrics="+host).Sees("Ready for Task Execution!")
	w.says(0, "run job "+w.written("long", "replicas: 2\ngrace: 1s\nresources: {cpu: 0.1}\n", "import time\ntime.sleep(3600)\n"))
	prom.until("members of the job", func() bool {
		return len(prom.query(`swarmd_task_members{task_type="RUN_JOB", state="ready"} == 2`)) == 1 && len(prom.query(`swarmd_assignments{phase="running"} == 1`)) == 3
	})
	prom.until("rounds of all three SLs", func() bool {
		return len(prom.query(`swarmd_program_models_total{contributed="true"} >= 3`)) == 3 && len(prom.query(`swarmd_contract_rounds_total{contract="e2e"} >= 3`)) == 3
	})
	prom.until("all SNs to be up", func() bool { return len(prom.query(`count by (name) (swarmd_node_up == 1) == 3`)) == 7 })
	prom.wellFed()

	// A disk that is gone, on which the host keeps what runs there.
	jobs, gone := w.Path("swop1", "tasks", "jobs"), w.Path("gone")
	swap := func() {
		if err := unix.Renameat2(unix.AT_FDCWD, jobs, unix.AT_FDCWD, gone, unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(gone, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	swap()
	prom.fires("SwarmdTasksUnseen", "instance", host)
	swap()
	w.says(0, "cancel job long")
	prom.until("no members of the job", func() bool {
		return len(prom.query(`sum(swarmd_task_members) == 0`)) == 1 && len(prom.query(`swarmd_assignments{phase="over"} == 1`)) == 3
	})
	for _, at := range targets {
		w.lint(at)
	}
	prom.until("no alert but that a node is down which is not started yet", func() bool {
		found := prom.firing()
		delete(found, "SwarmdAttemptsFail") // one may have, on a busy machine
		return len(found) == 1 && len(found["SwarmdDown"]) == 1 && found["SwarmdDown"][0]["instance"] == late
	})

	// A certificate that nobody renews.
	sl := w.Start(14, "sl-4", append([]string{
		"swarmd", "run-sl", "--name", "sl-4", "--host-ip", w.Addr(14), "--sn-ip", w.Addr(1), "--attach", "--state-dir", w.Path("sl4"), "--bridge-dir", w.Bridge(4), "--metrics", late,
	}, w.issue("spiffe://swarm.learning/swarm/sl/sl-4", 10*time.Minute)...)...)
	prom.fires("SwarmdSVIDNotRenewed", "instance", late)
	prom.fires("SwarmdNodeUnhealthy", "instance", late)
	sl.Stop()

	// A node that stands still while others merge with it: it is ready, and they wait for sl-2 alone.
	api := w.client(identity.RoleSWCI, nil)
	w.Until("sl-2 to be the only one that trains", func() bool {
		st, err := api.GetContractStatus(t.Context(), "e2e")
		return err == nil && strings.HasPrefix(st.GetWaiting(), "waiting for sl-2 (still training)")
	})
	sls[2].Signal(syscall.SIGSTOP)
	prom.fires("SwarmdDown", "instance", w.metricsAt(13))
	prom.fires("SwarmdNodeMissing", "name", "sl-3")
	prom.fires("SwarmdContractWaits", "reason", "peers")
	prom.fires("SwarmdAttemptsFail", "contract", "e2e")
	said, err := client.NoticedEvents(t.Context(), api, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"leader", "silent", "attempt_failed"} {
		i := slices.IndexFunc(said.GetEvents(), func(e *swarmv1.Event) bool {
			return e.GetKind() == kind && (kind == "leader" || e.GetNode() == "sl-3" || e.GetContract() == "e2e" && strings.Contains(e.GetText(), "sl-3"))
		})
		if i < 0 {
			t.Errorf("no event %s: %v", kind, said.GetEvents())
		}
	}
	sls[2].Signal(syscall.SIGCONT)
	prom.until("sl-3 to be back", func() bool { return len(prom.firing()["SwarmdNodeMissing"]) == 0 })

	sns[1].Kill()
	sns[2].Kill()
	prom.fires("SwarmdNoQuorum", "severity", "critical")
	for _, p := range sls {
		p.Kill()
	}
	prom.allFired()
}

// wellFed wants every expression of the dashboard to show something, with the labels that its legend names.
func (p *prometheus) wellFed() {
	p.w.T.Helper()
	panels, choices := dashboard(p.w.T)
	for _, c := range choices {
		var values []string
		if err := p.ask("label/"+c.label+"/values?match[]="+c.metric, &values); err != nil || !slices.Contains(values, "e2e") {
			p.w.T.Errorf("what can be chosen of %s: %v, %v", c.label, values, err)
		}
	}
	for _, x := range panels {
		found := p.query(x.expr)
		if len(found) == 0 { // rates need two scrapes within their time, and quantiles something that happened in it
			p.until("anything of "+x.expr, func() bool { found = p.query(x.expr); return len(found) > 0 })
		}
		for _, label := range x.labels {
			if found[0].Metric[label] == "" {
				p.w.T.Errorf("%s has no label %s, which its legend names: %v", x.expr, label, found[0].Metric)
			}
		}
	}
	if peers := p.query(`count by (instance) (swarmd_peer_bytes_total{peer=~"sl-[123]", direction="sent"} > 0)`); len(peers) != 3 {
		p.w.T.Errorf("SLs that have sent bytes to others by name: %v", peers)
	}
	names := map[string]bool{}
	for _, s := range p.query(`swarmd_node_info`) {
		names[s.Metric["name"]] = true
	}
	if got := slices.Sorted(maps.Keys(names)); strings.Join(got, " ") != "authority dashboard sl-1 sl-2 sl-3 sn-1 sn-2 sn-3 swop-1 web" {
		p.w.T.Errorf("nodes: %v", got)
	}
	if own := p.query(`swarmd_svid_expiry_timestamp_seconds and on (instance) swarmd_node_info{name=~"dashboard|web"}`); len(own) != 2 {
		p.w.T.Errorf("SVIDs of a dashboard and of web mode: %v", own)
	}
	if issued := p.query(`swarmd_svids_issued_total{role=~"sn|sl|swop"} > 0`); len(issued) != 3 {
		p.w.T.Errorf("roles of which the authority has issued SVIDs: %v", issued)
	}
}

// scrape returns what is told at an address.
func (w *swarm) scrape(at string) string {
	w.T.Helper()
	res, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + at + "/metrics")
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	told, err := io.ReadAll(res.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return string(told)
}

// lint wants promtool to find nothing wrong with what is told at an address.
func (w *swarm) lint(at string) {
	w.T.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		w.T.Skip("needs promtool: apt-get install prometheus")
	}
	cmd := exec.CommandContext(w.T.Context(), path, "check", "metrics")
	cmd.Stdin = strings.NewReader(w.scrape(at))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		w.T.Errorf("promtool check metrics, of %s: %v\n%s", at, err, out)
	}
}

// TestMetricsBadInput: an address that another node has, and one that is none, end a node at once with what to do.
func TestMetricsBadInput(t *testing.T) {
	t.Parallel()
	w := newSwarm(t)
	w.authority()
	w.SN(1, "--metrics", w.metricsAt(1)).Sees(apiMarker, "metrics are served")
	w.SN(2, "--metrics", w.metricsAt(1)).Fails("port 9464 on "+w.Addr(1)+" is in use by swarmd", "give another port with --metrics")
	w.SN(3, "--metrics", "9464").Fails("--metrics 9464: want HOST:PORT, such as 127.0.0.1:9464")
}

// TestCostOfMetricsForMinutes prints how long rounds of 100 MiB between two peers take while a Prometheus scrapes all nodes twice a second, and by how
// much that is longer than without metrics in the same run. How much is wanted of none.
func TestCostOfMetricsForMinutes(t *testing.T) {
	e2etest.NeedPython(t)
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("compares and judges nothing: SWARM_TEST_LONG=1 or make test-long")
	}
	const rounds = 15
	bare := newSwarm(t)
	bare.one()
	without := bare.secondsOfRounds(1, "ours", rounds, nil)
	w := newSwarm(t)
	w.authority()
	w.SN(1, "--metrics="+w.metricsAt(1)).Sees(apiMarker)
	w.prometheus(w.metricsAt(1), w.metricsAt(11), w.metricsAt(12))
	with := w.secondsOfRounds(1, "ours", rounds, func(i int) []string { return []string{"--metrics=" + w.metricsAt(10+i)} })
	t.Logf("a round: %.3f s without metrics, %.3f s with, times %.3f", without, with, with/without)
}
