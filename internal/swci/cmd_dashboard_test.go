package swci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/local"
	"github.com/swarmd/swarmd/merge"
)

// dashboardOf runs `swarmctl dashboard`, and returns what gets its documents.
func dashboardOf(t *testing.T, swarm fake) (get func(path string) string) {
	t.Helper()
	base, c := openDashboard(t, swarm)
	return func(path string) string {
		return askDashboard(t, c, http.MethodGet, base+path, "")
	}
}

// askDashboard has the page's requests answered.
func askDashboard(t *testing.T, c *http.Client, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// ofPage sends the key that the page was given behind the # of where it was led to.
type ofPage struct {
	http.Transport
	key string
}

func (p *ofPage) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Swarm-Page", p.key)
	res, err := p.Transport.RoundTrip(r)
	if err == nil {
		if _, key, ok := strings.Cut(res.Header.Get("Location"), "/#key="); ok {
			p.key = key
		}
	}
	return res, err
}

// openDashboard runs `swarmctl dashboard` on a free port, and returns where it is and a browser that it has let in.
func openDashboard(t *testing.T, swarm fake, options ...string) (base string, c *http.Client) {
	t.Helper()
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- dashboardTo(ctx, t, swarm, in, append([]string{"--listen", "127.0.0.1:0"}, options...)...)
		_ = in.Close()
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("dashboard ended with %v", err)
		}
	})
	lines := make(chan string, 10)
	go func() {
		for {
			line := make([]byte, 4096)
			n, err := out.Read(line)
			if err != nil {
				return
			}
			lines <- string(line[:n])
		}
	}()
	address, _ := strings.CutPrefix(strings.TrimSpace(<-lines), "dashboard: ")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	page := &ofPage{}
	t.Cleanup(page.CloseIdleConnections)
	c = &http.Client{Jar: jar, Transport: page}
	base, _, _ = strings.Cut(address, "?")
	askDashboard(t, c, http.MethodGet, address, "")
	return base, c
}

// dashboardTo runs `swarmctl dashboard`, which prints to out.
func dashboardTo(ctx context.Context, t *testing.T, swarm fake, out io.Writer, options ...string) error {
	state := t.TempDir()
	api := answering(t, swarm)
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: out, Stderr: io.Discard,
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": state, "SWARM_IDENTITY": "/run/agent.sock"}[k]
		},
		Now: func() time.Time { return time.UnixMilli(11_000) }, IsTerminal: func(io.Writer) bool { return false },
	}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) { return api, func() {}, nil }
	return swci.Execute(ctx, append([]string{"dashboard", "--sn=10.0.0.1:30304"}, options...), &swci.Session{Env: env, Connect: connect})
}

// TestDashboardShowsWhatCommandsPrint: a document is what its command prints with -o json.
func TestDashboardShowsWhatCommandsPrint(t *testing.T) {
	get := dashboardOf(t, &fakeAPI{})
	for name, line := range map[string]string{
		"nodes": "list nodes", "health": "get health", "contracts": "list contracts", "contract/c": "get contract status c",
		"explain/c": "explain contract c", "info/c": "get contract info c", "models/c": "list models c",
	} {
		printed, _ := run(t, append(strings.Fields(line), "--sn=10.0.0.1:30304", "-o", "json")...)
		var want, got any
		var doc struct{ Value json.RawMessage }
		if err := json.Unmarshal([]byte(get("api/doc/"+name)), &doc); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(printed), &want); err != nil {
			t.Fatalf("%s: %v: %s", line, err, printed)
		}
		if err := json.Unmarshal(doc.Value, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-command +document):\n%s", name, diff)
		}
	}
	var doc struct {
		Value struct {
			SwarmID string `json:"swarm_id"`
			SN      string
			Actions bool
		}
	}
	if said := get("api/doc/swarm"); json.Unmarshal([]byte(said), &doc) != nil || doc.Value.SwarmID == "" || doc.Value.SN == "" || doc.Value.Actions {
		t.Errorf("swarm: %s", said)
	}
	for _, none := range []string{"contract/", "contract", "other", "nodes/x"} {
		if said := get("api/doc/" + none); !strings.Contains(said, "there is no document") {
			t.Errorf("%s: %s", none, said)
		}
	}
}

// TestDashboardEvents: what the ledger says that somebody did, newest first; whether signatures were checked, and are good.
func TestDashboardEvents(t *testing.T) {
	c := audited(t)
	var doc struct {
		Value struct {
			Good, Signatures bool
			Problem          string
			Records          int
			Events           []struct{ Record, Who, What, Kind, About, Text any }
		}
	}
	ask := func(raw []byte, options ...string) (said string) {
		base, browser := openDashboard(t, &ledgerAPI{raw: raw}, options...)
		said = askDashboard(t, browser, http.MethodGet, base+"api/doc/events", "")
		doc.Value.Problem = ""
		if err := json.Unmarshal([]byte(said), &doc); err != nil {
			t.Fatal(err)
		}
		return said
	}
	if said := ask(c.lines, "--bundle", c.bundle); !doc.Value.Good || !doc.Value.Signatures || doc.Value.Records != 4 {
		t.Errorf("with authorities: %s", said)
	}
	other := newCommitted(t) // its authorities are not those of this ledger
	if said := ask(c.lines, "--bundle", other.bundle); doc.Value.Good || !doc.Value.Signatures || doc.Value.Problem == "" || len(doc.Value.Events) != 2 {
		t.Errorf("with others: %s", said)
	}
	said := ask(c.lines)
	v := doc.Value
	if !v.Good || v.Signatures || v.Problem != "" || v.Records != 4 || len(v.Events) != 2 || v.Events[0].Kind != "contract" || v.Events[0].About != "study" || v.Events[1].About != "sl-0" || v.Events[1].What != "banned" || v.Events[1].Who != "spiffe://a.example/swarm/swci/ann" {
		t.Errorf("events %s", said)
	}
}

// TestDashboardProof: of a model, what an audit of the SN's ledger says; signatures only with CA certificates, and never of a changed ledger.
func TestDashboardProof(t *testing.T) {
	c := newCommitted(t)
	model := merge.Sum([]byte("model")).String()
	c.train(merge.Sum([]byte("layout")), 3, "mean", model)
	ask := func(raw []byte, name string, options ...string) string {
		base, browser := openDashboard(t, &ledgerAPI{raw: raw}, options...)
		return askDashboard(t, browser, http.MethodGet, base+"api/doc/proof/"+name, "")
	}
	changed := bytes.Replace(c.lines, []byte(model), []byte(strings.Repeat("0", 64)), 1)
	for _, test := range []struct {
		raw     []byte
		options []string
		want    string
	}{
		{c.lines, []string{"--bundle", c.bundle}, "verified"}, {c.lines, nil, "unchecked"}, {changed, []string{"--bundle", c.bundle}, ""},
	} {
		said := ask(test.raw, "c/3", test.options...)
		var doc struct {
			Value struct {
				State, Digest, Head string
				Record, Records     int
				Problems            []string
				RulesText           string `json:"rules_text"`
				Rules               struct {
					Record int
					By     string
				}
				Participants []struct {
					Node     string
					SpiffeID string `json:"spiffe_id"`
					Signed   bool
				}
			}
			Error string
		}
		if err := json.Unmarshal([]byte(said), &doc); err != nil {
			t.Fatal(err)
		}
		v := doc.Value
		if test.want == "" {
			if v.State != "" && v.State != "bad" || doc.Error == "" && len(v.Problems) == 0 {
				t.Errorf("of a changed ledger: %s", said)
			}
			continue
		}
		if v.Rules.Record == 0 || v.Rules.Record >= v.Record || v.Rules.By != "spiffe://a.example/swarm/swci/dr-who" || v.RulesText != "min peers 1, models may be fetched" {
			t.Errorf("rules in force: %s", said)
		}
		if run := ask(test.raw, "c/1/3", test.options...); !strings.Contains(run, `"digest":"`+model+`"`) {
			t.Errorf("of the run by its number: %s", run)
		}
		if v.State != test.want || v.Digest != model || v.Record < 8 || v.Records < v.Record || len(v.Head) != 64 || len(v.Participants) != 1 ||
			v.Participants[0].SpiffeID != "spiffe://a.example/swarm/sl/hospital-a" || v.Participants[0].Signed != (test.want == "verified") {
			t.Errorf("%q: %s", test.options, said)
		}
	}
	for name, want := range map[string]string{"c/4": "the ledger has no round 4", "other/1": "the ledger has no round 1", "c/x": "is no round", "c": "is no round", "c/1/4": "no round 4 of contract c in run 1", "c/2/3": "no round 3 of contract c in run 2", "c/1/3/4": "is no round", "c/0/3": "is no round", "/1": "is no round"} {
		if said := ask(c.lines, name); !strings.Contains(said, want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

// TestDashboardActs: with --actions a page approves and refuses what it has shown, by its digest, in the operator's name, and nothing else.
func TestDashboardActs(t *testing.T) {
	api := approvals(t)
	base, c := openDashboard(t, api, "--actions")
	act := func(do, task, host, digest string) string {
		body, err := json.Marshal(map[string]string{"do": do, "task": task, "host": host, "digest": digest, "reason": "not today"})
		if err != nil {
			t.Fatal(err)
		}
		return askDashboard(t, c, http.MethodPost, base+"api/act", string(body))
	}
	good := api.digest("pull")
	for _, bad := range [][]string{
		{"approve", "pull", "h-0", ""}, {"approve", "pull", "h-0", strings.Repeat("0", 64)}, {"approve", "pull", "h-9", good}, {"delete", "pull", "h-0", good}, {"approve", "--help", "h-0", good},
	} {
		if said := act(bad[0], bad[1], bad[2], bad[3]); !strings.Contains(said, `"error":"`) || strings.Contains(said, `"said"`) {
			t.Errorf("%q: %s", bad, said)
		}
	}
	if len(api.said) != 0 {
		t.Fatalf("signed: %q", api.said)
	}
	if said := act("approve", "pull", "h-0", good); said != `{"said":"the approval of task pull is signed; h-0 goes by it if its policy lets you decide"}` || len(api.said) != 2 { // of both assignments that wait there
		t.Errorf("approve: %s, signed %q", said, api.said)
	}
	if said := act("refuse", "run", "h-1", api.digest("run")); said != `{"said":"the refusal of task run is signed; h-1 goes by it if its policy lets you decide"}` || len(api.said) != 3 || !strings.Contains(api.said[2], "not today") {
		t.Errorf("refuse: %s, signed %q", said, api.said)
	}
}

// TestDashboardBadInput: each is a line with a remedy.
func TestDashboardBadInput(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, bad := range []struct {
		options string
		code    int
		says    string
	}{
		{"--listen " + taken.Addr().String(), exit.Conflict, "another dashboard may be running"},
		{"--listen 0.0.0.0:0", exit.Usage, "is no loopback address"},
		{"--listen here", exit.Usage, "is no ADDRESS:PORT"},
		{"--page-cert a.pem", exit.Usage, "go together"},
		{"--listen 0.0.0.0:0 --page-cert a.pem --page-key b.pem", exit.Usage, "read the page's certificate"},
		{"--listen 0.0.0.0:0 --page-cert a.pem --page-key b.pem --actions", exit.Usage, "for loopback addresses only"},
		{"-o json", exit.Usage, "no JSON"},
	} {
		var out bytes.Buffer
		err := dashboardTo(t.Context(), t, &fakeAPI{}, &out, strings.Fields(bad.options)...)
		if exit.Code(err) != bad.code || !strings.Contains(err.Error(), bad.says) || exit.Hint(err) == "" {
			t.Errorf("%s: %v (%d, %q), want %d", bad.options, err, exit.Code(err), exit.Hint(err), bad.code)
		}
	}
}

// TestDashboardBesideARun is there while it trains, whether the usual port is taken or not, and gone afterwards.
func TestDashboardBesideARun(t *testing.T) {
	api := answering(t, &fakeAPI{})
	env := swci.Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }, Now: time.Now, IsTerminal: func(io.Writer) bool { return false }}
	connect := func(context.Context, swci.Context) (client.Operator, func(), error) { return api, func() {}, nil }
	s := &swci.Session{Env: env, Connect: connect, Grammar: grammar(t)}
	var stops []func()
	for range 2 {
		said := make(chan string, 2)
		stop, err := swci.BesideRun(t.Context(), s, swci.Context{SNs: []string{"10.0.0.1:30304"}, Identity: "/run/agent.sock"}, "see the report", local.Say{Address: func(line string) { said <- line }, Log: func(line string) { t.Error(line) }})
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
		address, _, _ := strings.Cut(strings.TrimPrefix(<-said, "dashboard: "), " ")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || res.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %v, %v", address, err, res)
		} else {
			_ = res.Body.Close()
		}
	}
	for _, stop := range stops {
		stop()
	}
}

// TestDashboardMetrics: a dashboard tells Prometheus how much it does, and an address that can't be had ends it at once.
func TestDashboardMetrics(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := ln.Addr().String()
	for given, want := range map[string]string{at: "is in use by", "9464": "--metrics 9464: want HOST:PORT, such as 127.0.0.1:9464"} {
		if err := dashboardTo(t.Context(), t, &fakeAPI{}, io.Discard, "--listen", "127.0.0.1:0", "--metrics", given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--metrics %s: %v, want %q", given, err, want)
		}
	}
	_ = ln.Close()
	base, c := openDashboard(t, &fakeAPI{}, "--metrics", at)
	for _, name := range []string{"nodes", "contract/c", "contract/none"} {
		askDashboard(t, c, http.MethodGet, base+"api/doc/"+name, "")
	}
	told := askDashboard(t, http.DefaultClient, http.MethodGet, "http://"+at+"/metrics", "")
	for _, want := range []string{
		`swarmd_node_info{name="dashboard",role="swci"} 1`, "swarmd_dashboard_live 1", `swarmd_dashboard_streams{kind="page"} 0`, `swarmd_dashboard_documents_total{document="contract"} 2`,
		`swarmd_dashboard_documents_failed_total{document="contract"} 1`, `swarmd_dashboard_documents_failed_total{document="nodes"} 0`, "process_resident_memory_bytes ",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("its metrics lack %q:\n%s", want, told)
		}
	}
}
