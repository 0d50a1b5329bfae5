package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// swarm is what is shown in tests.
type swarm struct {
	mu    sync.Mutex
	value string
	lost  error // nobody answers
	late  error // what comes of the documents that take long, but for nodes
	link  error
	done  []dashboard.Act
	stop  func()        // ends the dashboard
	lines chan string   // of the log that is followed
	reads int           // logs that are followed
	moved chan struct{} // what they are has changed
	fetch func(ctx context.Context, of dashboard.ModelOf, begin func(name string, size int64) io.Writer) error
}

func (s *swarm) Kind(name string) dashboard.Kind {
	there := name == "nodes" || name == "contract/a b" || name == "history/c" || name == "proof/c/1" || name == "events"
	return dashboard.Kind{There: there, OnDemand: name == "proof/c/1", Slow: name == "proof/c/1" || name == "events", Link: name == "nodes"}
}

func (s *swarm) Get(ctx context.Context, name string) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.late != nil && name == "events": // it takes as long as it may
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	case s.late != nil && name != "nodes":
		return nil, s.late
	case s.lost != nil:
		return nil, s.lost
	case strings.HasPrefix(name, "history/"):
		return json.Marshal(map[string]any{"asked": name})
	case name == "contract/a b":
		return nil, exit.New(exit.NotFound, "see list contracts", "there is\x1b none")
	}
	return json.RawMessage(s.value), nil
}

func (s *swarm) Link() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "sn-1", s.link
}

func (s *swarm) Follow(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *swarm) Act(_ context.Context, a dashboard.Act) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Task == "bad" {
		return "", exit.New(exit.Conflict, "look again", "it waits no more")
	}
	s.done = append(s.done, a)
	return "done", nil
}

// Logs hands out what is put into lines, until that is closed; of a member more is said than of a node.
func (s *swarm) Logs(ctx context.Context, of dashboard.LogOf, line func(dashboard.LogLine)) error {
	count := func(n int) {
		s.set(func() { s.reads += n })
		s.moved <- struct{}{}
	}
	count(1)
	defer count(-1)
	if of.Name == "closed" {
		line(dashboard.LogLine{Host: of.Name, Text: "last"})
		return exit.New(exit.Denied, "ask its owner", "closed hands out\x1b[2J no log")
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l, more := <-s.lines:
			if !more {
				return nil
			}
			line(dashboard.LogLine{Host: of.Name + of.Host, From: of.Member, Text: l})
		}
	}
}

func (s *swarm) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// serve starts a dashboard and returns its addresses as they are printed.
func serve(t *testing.T, s *swarm, actions bool) (invited chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	invited = make(chan string, 100)
	d := dashboard.New(dashboard.Config{
		Documents: s, Fetch: s.fetch, Hosts: []string{ln.Addr().String()}, Actions: actions, Now: time.Now, Invite: func(address string) { invited <- address },
		Ended: dashboard.Link{Problem: "the run has ended", Remedy: "see the report"},
		Page:  fstest.MapFS{"index.html": {Data: []byte("the page")}, "app.js": {Data: []byte("js")}, "README.md": {Data: []byte("no")}},
	})
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return invited
}

// pageKeys sends the key that a page was given behind the # of where it was led to.
type pageKeys struct {
	http.Transport
	key string
}

func (p *pageKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.key != "" && strings.HasPrefix(r.URL.Path, "/api/") {
		r = r.Clone(r.Context())
		r.Header.Set("X-Swarm-Page", p.key)
	}
	res, err := p.Transport.RoundTrip(r)
	if err == nil {
		if _, key, ok := strings.Cut(res.Header.Get("Location"), "/#key="); ok {
			p.key = key
		}
	}
	return res, err
}

// browser returns a client that keeps cookies, and the key of its page.
func browser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	page := &pageKeys{}
	t.Cleanup(page.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: page}
}

func get(t *testing.T, c *http.Client, url string, change ...func(*http.Request)) (status int, body string, head http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(r)
	}
	return do(t, c, r)
}

func do(t *testing.T, c *http.Client, r *http.Request) (status int, body string, head http.Header) {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data), res.Header
}

// TestAddressLetsOneBrowserIn: whoever has no address, a used one or a wrong one sees nothing, and is told what to do.
func TestAddressLetsOneBrowserIn(t *testing.T) {
	invited := serve(t, &swarm{value: `{"a":1}`}, false)
	address := <-invited
	base, _, _ := strings.Cut(address, "/?")
	mine, other := browser(t), browser(t)
	for _, path := range []string{"/", "/app.js", "/api/doc/nodes", "/api/stream?watch=nodes", "/api/logs/n", "/?token="} {
		if status, body, _ := get(t, other, base+path); status < 400 || strings.Contains(body, "the page") {
			t.Errorf("%s let anybody in: %d %s", path, status, body)
		}
	}
	status, body, head := get(t, mine, address)
	if status != 200 || body != "the page" {
		t.Fatalf("the address leads to %d %q", status, body)
	}
	if csp := head.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || head.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", head)
	}
	if status, body, _ = get(t, other, address); status != 403 || !strings.Contains(body, "was used before") {
		t.Errorf("a used address: %d %s", status, body)
	}
	if status, body, _ = get(t, mine, address); status != 200 || body != "the page" {
		t.Errorf("a reload of the address by whoever is in: %d %s", status, body)
	}
	if next := <-invited; next == address {
		t.Error("the next address is the same")
	} else if status, body, _ = get(t, other, next); status != 200 || body != "the page" {
		t.Errorf("the next address: %d %s", status, body)
	}
	for path, want := range map[string]int{"/app.js": 200, "/README.md": 404, "/nothing": 404, "/api/doc/nothing": 404, "/api/doc/" + strings.Repeat("n", 400): 404} {
		if status, _, _ = get(t, mine, base+path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if status, body, _ = get(t, mine, base+"/api/doc/nodes", func(r *http.Request) { r.Host = "evil.example:80" }); status != 421 || strings.Contains(body, `"a"`) {
		t.Errorf("under another name: %d %s", status, body)
	}
}

// TestCookieIsForThePageAlone: it is no use to scripts and to other sites.
func TestCookieIsForThePageAlone(t *testing.T) {
	invited := serve(t, &swarm{}, false)
	c := browser(t)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _, head := get(t, c, <-invited)
	if said := head.Get("Set-Cookie"); !strings.Contains(said, "HttpOnly") || !strings.Contains(said, "SameSite=Strict") || strings.Contains(said, "Domain") {
		t.Errorf("cookie %q", said)
	}
}

// TestCookieAloneOpensNothing: every server of this machine is sent the cookie, whatever its port. It is worth nothing without the key that the
// page keeps, and the used address gives that to nobody again.
func TestCookieAloneOpensNothing(t *testing.T) {
	s := &swarm{value: `{"a":1}`}
	invited := serve(t, s, true)
	address, c := <-invited, browser(t)
	get(t, c, address)
	base, _, _ := strings.Cut(address, "/?")
	second := browser(t)
	get(t, second, <-invited)
	thief := &http.Client{Jar: c.Jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if _, _, head := get(t, thief, address); strings.Contains(head.Get("Location"), "key") {
		t.Errorf("a used address leads to %s", head.Get("Location"))
	}
	for _, key := range []string{"", "1", second.Transport.(*pageKeys).key} {
		for _, path := range []string{"/api/key", "/api/doc/nodes", "/api/stream?watch=nodes", "/api/logs/n", "/api/act"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if path == "/api/act" {
				r.Method, r.Body = http.MethodPost, io.NopCloser(strings.NewReader(`{"do":"approve","task":"t","host":"h","digest":"d"}`))
			}
			r.Header.Set("X-Swarm-Page", key)
			if status, body, _ := do(t, thief, r); status != 401 || !strings.Contains(body, "this page was not let in") || strings.Contains(body, `"a"`) {
				t.Errorf("%s with the key %q: %d %s", path, key, status, body)
			}
		}
	}
	if len(s.done) != 0 {
		t.Errorf("done: %v", s.done)
	}
	if status, body, _ := get(t, c, base+"/api/doc/nodes"); status != 200 || !strings.Contains(body, `{"a":1}`) {
		t.Errorf("the page itself: %d %s", status, body)
	}
	if status, _, _ := get(t, c, base+"/api/key"); status != 204 {
		t.Errorf("the page's key is good: %d", status)
	}
}

func TestDocument(t *testing.T) {
	s := &swarm{value: "{\n  \"a\": 1\n}\n"}
	invited := serve(t, s, false)
	address, c := <-invited, browser(t)
	get(t, c, address)
	base, _, _ := strings.Cut(address, "/?")
	for path, want := range map[string]dashboard.Document{
		"nodes":          {Name: "nodes", Value: json.RawMessage(`{"a":1}`)},
		"contract/a%20b": {Name: "contract/a b", Error: `there is\x1b none`, Remedy: "see list contracts", Gone: true},
	} {
		status, body, _ := get(t, c, base+"/api/doc/"+path)
		var got dashboard.Document
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 {
			t.Fatalf("%d %v %s", status, err, body)
		}
		if _, err := time.Parse(time.RFC3339, got.At); err != nil || got.Name != want.Name || string(got.Value) != string(want.Value) || got.Remedy != want.Remedy || got.Gone != want.Gone || (got.Error == "") != (want.Error == "") || strings.Contains(got.Error, "\x1b") {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	s.mu.Lock()
	s.late = exit.New(exit.Unreachable, "wait", "no leader answers")
	s.mu.Unlock()
	if _, body, _ := get(t, c, base+"/api/doc/history/c"); !strings.Contains(body, "no leader answers") || strings.Contains(body, "gone") {
		t.Errorf("what may come is answered as %s", body)
	}
}

// follow opens a stream and returns its events as "KIND DATA".
func follow(t *testing.T, c *http.Client, url string) <-chan string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", res, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	events := make(chan string, 100)
	go func() {
		kind := ""
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			if k, ok := strings.CutPrefix(in.Text(), "event: "); ok {
				kind = k
			}
			if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
				events <- kind + " " + data
			}
		}
	}()
	return events
}

// until returns the first event that has all of the words.
func until(t *testing.T, events <-chan string, words ...string) string {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case e := <-events:
			has := true
			for _, w := range words {
				has = has && strings.Contains(e, w)
			}
			if has {
				return e
			}
		case <-late:
			t.Fatalf("no event with %q", words)
		}
	}
}

// TestStreamTellsWhatChanges: each document once, then changes alone; that the swarm is lost, while what was known stays, and found again.
func TestStreamTellsWhatChanges(t *testing.T) {
	s := &swarm{value: `{"a":1}`}
	invited := serve(t, s, false)
	address, c := <-invited, browser(t)
	get(t, c, address)
	base, _, _ := strings.Cut(address, "/?")
	events := follow(t, c, base+"/api/stream?watch=nodes,contract/a%20b,nodes")
	until(t, events, "doc", `"nodes"`, `{"a":1}`)
	s.set(func() { s.value = `{"a":2}` })
	until(t, events, "doc", `"nodes"`, `{"a":2}`)
	s.set(func() { s.lost = exit.New(exit.Unreachable, "start an SN", "no SN answers") })
	if got := until(t, events, "link", "stale"); !strings.Contains(got, "no SN answers") || !strings.Contains(got, "start an SN") {
		t.Errorf("link %s", got)
	}
	s.set(func() { s.lost = nil })
	until(t, events, "link", `"live"`, "sn-1")
	s.set(func() { s.link = exit.New(exit.Denied, "have it renewed", "the identity has expired") })
	until(t, events, "link", "stale", "the identity has expired", "have it renewed")
	s.set(func() { s.link = nil; s.value = `{"a":3}` })
	if got := until(t, events, "doc"); !strings.Contains(got, `{"a":3}`) {
		t.Errorf("while the swarm was lost, or after it, a page was told %s", got)
	}
	s.stop()
	until(t, events, "link", `"ended"`, "the run has ended", "see the report")
}

// TestOneDocumentIsNotTheSwarm: what takes long or does not come keeps no other document from coming, and the page stays live; why it does not
// come is said in its place.
func TestOneDocumentIsNotTheSwarm(t *testing.T) {
	s := &swarm{value: `{"a":1}`}
	invited := serve(t, s, false)
	address, c := <-invited, browser(t)
	get(t, c, address)
	base, _, _ := strings.Cut(address, "/?")
	events := follow(t, c, base+"/api/stream?watch=nodes,history/c,events")
	until(t, events, "doc", `"history/c"`, `"asked"`)
	s.set(func() { s.late = exit.New(exit.Unreachable, "start its host", "no way to the host") })
	asked := make(chan string, 1)
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/doc/proof/c/1", http.NoBody)
		res, err := c.Do(r)
		if err != nil {
			asked <- err.Error()
			return
		}
		defer res.Body.Close()
		said, _ := io.ReadAll(res.Body)
		asked <- string(said)
	}()
	for _, want := range []string{`{"a":2}`, `{"a":3}`, "no way to the host"} {
		late := time.After(20 * time.Second)
		for there := false; !there; {
			s.set(func() {
				if strings.HasPrefix(want, "{") {
					s.value = want
				}
			})
			select {
			case e := <-events:
				if strings.Contains(e, `"stale"`) {
					t.Fatalf("a document that does not come makes the page stale: %s", e)
				}
				there = strings.Contains(e, want)
			case <-late:
				t.Fatalf("no event with %s", want)
			}
		}
	}
	if said := <-asked; !strings.Contains(said, "no way to the host") {
		t.Errorf("a document on demand: %s", said)
	}
}

func TestStreamIsBounded(t *testing.T) {
	invited := serve(t, &swarm{value: `{}`}, false)
	address, c := <-invited, browser(t)
	get(t, c, address)
	base, _, _ := strings.Cut(address, "/?")
	for _, bad := range []string{"", "nodes,nothing", "contract/"} {
		if status, body, _ := get(t, c, base+"/api/stream?watch="+bad); status != 400 || !strings.Contains(body, "there is no document") {
			t.Errorf("watch=%s: %d %s", bad, status, body)
		}
	}
	for range 16 {
		follow(t, c, base+"/api/stream?watch=nodes")
	}
	if status, body, _ := get(t, c, base+"/api/stream?watch=nodes"); status != 503 || !strings.Contains(body, "close some") {
		t.Errorf("one stream too many: %d %s", status, body)
	}
}

// TestStrangersKeepNobodyOut: connections of those who have no address go when there are too many, and those of a page stay.
func TestStrangersKeepNobodyOut(t *testing.T) {
	s := &swarm{value: `{"a":1}`}
	invited := serve(t, s, false)
	address, c := <-invited, browser(t)
	base, _, _ := strings.Cut(address, "/?")
	crowd := func() {
		for range 270 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	crowd()
	c.Timeout = 10 * time.Second
	if status, body, _ := get(t, c, address); status != 200 || body != "the page" {
		t.Fatalf("beside strangers: %d %s", status, body)
	}
	c.Timeout = 0
	events := follow(t, c, base+"/api/stream?watch=nodes")
	until(t, events, "doc", `{"a":1}`)
	crowd()
	s.set(func() { s.value = `{"a":2}` })
	until(t, events, "doc", `{"a":2}`)
}

// TestWhoHasTheAddressStays: what proves the address, or has the cookie, is no stranger from its first request on: its connection is there for the
// files of the page, however many strangers come.
func TestWhoHasTheAddressStays(t *testing.T) {
	invited := serve(t, &swarm{}, false)
	address := <-invited
	base, token, _ := strings.Cut(address, "/?")
	host := strings.TrimPrefix(base, "http://")
	ask := func(conn net.Conn, path, cookie string) *http.Response {
		t.Helper()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nCookie: "+cookie+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res
	}
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	first, second := dial(), dial()
	cookie, _, _ := strings.Cut(ask(first, "/?"+token, "").Header.Get("Set-Cookie"), ";")
	if res := ask(second, "/app.js", cookie); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	for range 270 {
		dial()
	}
	for _, conn := range []net.Conn{first, second} {
		if res := ask(conn, "/app.js", cookie); res.StatusCode != http.StatusOK {
			t.Errorf("beside strangers: %s", res.Status)
		}
	}
}

// TestActs: only with --actions, only of the page itself, and what comes of it is said.
func TestActs(t *testing.T) {
	for _, actions := range []bool{false, true} {
		s := &swarm{}
		invited := serve(t, s, actions)
		address, c := <-invited, browser(t)
		get(t, c, address)
		base, _, _ := strings.Cut(address, "/?")
		post := func(body, origin string) (int, dashboard.Acted) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/act", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Origin", origin)
			status, said, _ := do(t, c, r)
			var a dashboard.Acted
			if err := json.Unmarshal([]byte(said), &a); err != nil {
				a.Error = said
			}
			return status, a
		}
		const good = `{"do":"approve","task":"t","host":"h","digest":"d"}`
		for _, bad := range []struct{ body, origin string }{
			{good, "https://evil.example"}, {good + "x", base}, {`{"who":1}`, base}, {`"` + strings.Repeat("x", 9<<10), base},
		} {
			if status, a := post(bad.body, bad.origin); status < 400 || a.Error == "" {
				t.Errorf("%.80q at %s: %d %+v", bad.body, bad.origin, status, a)
			}
		}
		status, a := post(good, base)
		if done := len(s.done) == 1 && status == 200 && a.Said == "done"; done != actions || !actions && (status != 403 || a.Remedy == "") {
			t.Errorf("with actions %v: %d %+v, done %v", actions, status, a, s.done)
		}
		if status, a = post(strings.Replace(good, `"t"`, `"bad"`, 1), base); actions && (status != 200 || a.Error != "it waits no more" || a.Remedy != "look again") {
			t.Errorf("what can't be done: %d %+v", status, a)
		}
	}
}

// TestNoPage: a build without the page says so.
func TestNoPage(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	invited := make(chan string, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	d := dashboard.New(dashboard.Config{Documents: &swarm{}, Hosts: []string{ln.Addr().String()}, Now: time.Now, Invite: func(a string) { invited <- a }, Page: fstest.MapFS{}})
	go func() { ended <- d.Serve(ctx, ln) }()
	if status, body, _ := get(t, browser(t), <-invited); status != 404 || !strings.Contains(body, "has no page") {
		t.Errorf("%d %s", status, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestPoints: a page says how many rounds of a history it shows, and the document has its name all the same; what is made on demand is in no stream.
func TestPoints(t *testing.T) {
	invited := serve(t, &swarm{value: "{}"}, false)
	address := <-invited
	base, _, _ := strings.Cut(address, "?")
	c := browser(t)
	get(t, c, address)
	for path, want := range map[string]string{
		"api/doc/history/c?points=600":               `{"asked":"history/c?points=600"}`,
		"api/doc/history/c":                          `{"asked":"history/c"}`,
		"api/doc/history/c?points=0":                 "points is 1 to 10000",
		"api/doc/history/c?points=--help":            "points is 1 to 10000",
		"api/doc/history/c%3Fpoints=9":               "there is no document",
		"api/stream?watch=nodes,history/c&points=-1": "points is 1 to 10000",
		"api/stream?watch=proof/c/1":                 "no stream has it",
	} {
		if _, said, _ := get(t, c, base+path); !strings.Contains(said, want) || strings.Contains(said, `"name":"history/c?`) {
			t.Errorf("%s: %s", path, said)
		}
	}
}
