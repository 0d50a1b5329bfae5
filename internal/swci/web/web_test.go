package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/swci/web"
)

// prompt answers commands as a test wants it.
type prompt func(ctx context.Context, line string) ([]string, error)

// Do implements web.Runner.
func (p prompt) Do(ctx context.Context, client, line string) ([]string, error) {
	return p(context.WithValue(ctx, asker{}, client), line)
}

// asker is the key of the client's SPIFFE ID in a command's context.
type asker struct{}

// Subject implements web.Runner.
func (p prompt) Subject(line string) string { return strings.ToUpper(line) }

// place is a server in web mode and where it is.
type place struct {
	t         *testing.T
	authority *rpctest.Authority
	domains   identity.Domains
	url, dir  string
	log       *bytes.Buffer
	server    *web.Server
	stop      context.CancelFunc
	ended     chan error
}

func serve(t *testing.T, run prompt, noDir bool) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), log: &bytes.Buffer{}, ended: make(chan error, 1)}
	var err error
	if p.authority, err = rpctest.NewAuthority("a.example"); err != nil {
		t.Fatal(err)
	}
	if p.domains, err = p.authority.Domains(); err != nil {
		t.Fatal(err)
	}
	source, err := p.authority.Issue("/swarm/swci/server", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.url = "https://" + ln.Addr().String()
	named, err := pattern.ParseList([]string{"spiffe://a.example/swarm/swci/ada", "spiffe://a.example/swarm/sl/*", "spiffe://b.example/**"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := web.Config{Source: source, Domains: p.domains, Clients: named, Runner: run, Dir: p.dir, Longest: time.Hour, Log: slog.New(slog.NewTextHandler(&locked{w: p.log}, nil))}
	if noDir {
		cfg.Dir = ""
	}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	p.server = web.New(cfg)
	go func() { p.ended <- p.server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-p.ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return p
}

// locked is a writer for many.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// as returns a client with an SVID of this path.
func (p *place) as(authority *rpctest.Authority, path string) *http.Client {
	p.t.Helper()
	source, err := authority.Issue(path, time.Hour, p.authority)
	if err != nil {
		p.t.Fatal(err)
	}
	tr := &http.Transport{TLSClientConfig: identity.ClientTLS(source, p.domains, identity.RoleSWCI)}
	p.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func (p *place) operator() *http.Client { return p.as(p.authority, "/swarm/swci/ada") }

// do sends a request and returns status and body.
func (p *place) do(c *http.Client, method, path string, body io.Reader, header ...string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func (p *place) exec(c *http.Client, line string) (int, string) {
	p.t.Helper()
	return p.do(c, http.MethodPost, "/exec?cmd="+url.QueryEscape(line), nil)
}

func TestExec(t *testing.T) {
	answers := map[string]struct {
		lines []string
		err   error
	}{
		"list contexts":    {[]string{"a", "b"}, nil},
		"nothing":          {nil, nil},
		"GET X 'ü + & %'":  {[]string{"<ü>"}, nil},
		"reset contract c": {[]string{"first", "ERROR : 2 sessions are open", "    hint: use force"}, errors.New("open")},
		"ls":               {[]string{"ERROR x.yaml", "y"}, nil},
		"odd":              {[]string{"ERROR a", "ERROR : b"}, errors.New("b")},
	}
	p := serve(t, func(_ context.Context, line string) ([]string, error) { return answers[line].lines, answers[line].err }, false)
	c := p.operator()
	for line, want := range map[string][]string{
		"list contexts": {"a", "b"}, "nothing": {""}, "GET X 'ü + & %'": {"<ü>"},
		"reset contract c": {"first", "ERROR : 2 sessions are open\n    hint: use force"},
		"  ls  ":           {" ERROR x.yaml", "y"},
		"odd":              {" ERROR a", "ERROR : b"},
	} {
		status, body := p.exec(c, line)
		var got struct {
			Content []string `json:"CONTENT"` //nolint:tagliatelle // the original's name
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
			t.Fatalf("%s: status %d, %v: %s", line, status, err, body)
		}
		if diff := cmp.Diff(want, got.Content); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	p.stop()
	p.ended <- <-p.ended
	if log := p.log.String(); !strings.Contains(log, `client=spiffe://a.example/swarm/swci/ada command="RESET CONTRACT C" failed=true`) {
		t.Errorf("log:\n%s", log)
	}
	if got, want := p.server.Counts(), (web.Counts{Done: 4, Failed: 2}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

func TestExecRefusals(t *testing.T) {
	p := serve(t, func(_ context.Context, line string) ([]string, error) {
		t.Errorf("%q was run", line)
		return nil, nil
	}, false)
	c := p.operator()
	for _, tt := range []struct {
		method, path, body string
		header             []string
		status             int
		want               string
	}{
		{"GET", "/exec?cmd=pwd", "", nil, http.StatusMethodNotAllowed, ""},
		{"POST", "/", "", nil, http.StatusNotFound, ""},
		{"POST", "/exec", "", nil, http.StatusBadRequest, "ERROR : a request has one command"},
		{"POST", "/exec?cmd=", "", nil, http.StatusBadRequest, "ERROR : a request has one command"},
		{"POST", "/exec?cmd=a&cmd=b", "", nil, http.StatusBadRequest, "ERROR : a request has one command"},
		{"POST", "/exec?cmd=a%0ab", "", nil, http.StatusBadRequest, "ERROR : a command is one line"},
		{"POST", "/exec?cmd=%zz", "", nil, http.StatusBadRequest, "ERROR : read query"},
		{"POST", "/exec?cmd=" + strings.Repeat("%41", 64<<10) + "x", "", nil, http.StatusBadRequest, "ERROR : a command has at most 65536 bytes"},
		{"POST", "/exec?cmd=" + strings.Repeat("x", 1<<20), "", nil, http.StatusRequestHeaderFieldsTooLarge, ""},
		{"POST", "/exec?cmd=pwd", strings.Repeat("x", 1<<17), nil, http.StatusRequestEntityTooLarge, "ERROR : the body"},
		{"POST", "/exec?cmd=pwd", "", []string{"Origin", "https://evil.example"}, http.StatusForbidden, ""},
		{"POST", "/exec?cmd=pwd", "", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden, ""},
	} {
		status, body := p.do(c, tt.method, tt.path, strings.NewReader(tt.body), tt.header...)
		if status != tt.status || !strings.HasPrefix(body, tt.want) {
			t.Errorf("%s %.40s: status %d, want %d: %s", tt.method, tt.path, status, tt.status, body)
		}
	}
}

// TestClients holds that only operators are let in, of this swarm, who are named or are whom the server is.
func TestClients(t *testing.T) {
	p := serve(t, func(ctx context.Context, _ string) ([]string, error) {
		return []string{ctx.Value(asker{}).(string)}, nil
	}, false)
	other, err := rpctest.NewAuthority("b.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		authority *rpctest.Authority
		path      string
		want      int // 0: it is not even answered
	}{
		{p.authority, "/swarm/swci/server", http.StatusOK},
		{p.authority, "/swarm/swci/ada", http.StatusOK},
		{p.authority, "/swarm/swci", http.StatusForbidden},
		{p.authority, "/swarm/swci/bob", http.StatusForbidden},
		{p.authority, "/swarm/sl/ada", 0},
		{p.authority, "/swarm/sn/ada", 0},
		{p.authority, "/swarm/audit", 0},
		{other, "/swarm/swci/ada", 0},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/exec?cmd=pwd", nil)
		if err != nil {
			t.Fatal(err)
		}
		status, body := 0, ""
		resp, err := p.as(tt.authority, tt.path).Do(r)
		if err == nil {
			data, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			status, body = resp.StatusCode, string(data)
		}
		want := map[int]string{
			http.StatusOK:        "{\"CONTENT\":[\"spiffe://a.example" + tt.path + "\"]}\n",
			http.StatusForbidden: "ERROR : spiffe://a.example" + tt.path + " is no client of this web mode: start it with --web-client=spiffe://a.example" + tt.path + "\n",
		}
		if status != tt.want || body != want[status] {
			t.Errorf("%s: %d %s (%v), want %d", tt.path, status, body, err, tt.want)
		}
	}
	if resp, err := (&http.Client{}).Get("http" + strings.TrimPrefix(p.url, "https")); err == nil { //nolint:noctx // it is refused
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("plain HTTP is answered")
		}
	}
	if got, want := p.server.Counts(), (web.Counts{Done: 2, Refused: 2}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// TestSeveralAtOnce holds that commands that wait are in nobody's way, and that too many of one client are refused.
func TestSeveralAtOnce(t *testing.T) {
	const most, more = 16, 4
	begun, end := make(chan struct{}, most), make(chan struct{})
	p := serve(t, func(_ context.Context, line string) ([]string, error) {
		if line == "wait" {
			begun <- struct{}{}
			<-end
		}
		return []string{"done"}, nil
	}, false)
	ada, server := p.operator(), p.as(p.authority, "/swarm/swci/server")
	statuses := make(chan int, most)
	var all sync.WaitGroup
	for range most {
		all.Go(func() {
			status, _ := p.exec(ada, "wait")
			statuses <- status
		})
	}
	for range most {
		<-begun
	}
	for range more {
		if status, body := p.exec(ada, "pwd"); status != http.StatusServiceUnavailable || !strings.HasPrefix(body, "ERROR : 16 requests of spiffe://a.example/swarm/swci/ada are under way") {
			t.Errorf("one request too many: %d %s", status, body)
		}
	}
	if status, body := p.exec(server, "pwd"); status != http.StatusOK {
		t.Errorf("another client, while commands wait: %d %s", status, body)
	}
	close(end)
	all.Wait()
	for range most {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("a command that waited: %d", status)
		}
	}
	if status, body := p.exec(ada, "pwd"); status != http.StatusOK {
		t.Errorf("when they are over: %d %s", status, body)
	}
}

// TestClientLeaves holds that a command ends with the client that asked for it.
func TestClientLeaves(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	p := serve(t, func(ctx context.Context, line string) ([]string, error) {
		if line == "pwd" {
			return []string{"here"}, nil
		}
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}, false)
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/exec?cmd=wait", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := p.operator()
	var gone sync.WaitGroup
	gone.Go(func() {
		if resp, err := c.Do(r); err == nil {
			_ = resp.Body.Close()
		}
	})
	<-begun
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the command ended with %v", err)
	}
	gone.Wait()
	if status, body := p.exec(c, "pwd"); status != http.StatusOK {
		t.Errorf("the next command: %d %s", status, body)
	}
}

// TestStop holds that a command that runs may end when the server stops.
func TestStop(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	p := serve(t, func(context.Context, string) ([]string, error) {
		close(begun)
		<-end
		return []string{"done"}, nil
	}, false)
	c := p.operator()
	answered := make(chan string, 1)
	go func() {
		_, body := p.exec(c, "pwd")
		answered <- body
	}()
	<-begun
	p.stop()
	close(end)
	if got := <-answered; got != "{\"CONTENT\":[\"done\"]}\n" {
		t.Errorf("answer: %s", got)
	}
}

// form makes the body of an upload.
func form(t *testing.T, field, name string, data []byte) (body *bytes.Buffer, kind string) {
	t.Helper()
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	part, err := w.CreateFormFile(field, name)
	if err == nil {
		_, err = part.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return body, w.FormDataContentType()
}

func TestUpload(t *testing.T) {
	p := serve(t, nil, false)
	c := p.operator()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.WriteFile(outside, []byte("kept"), 0o600), os.Symlink(outside, filepath.Join(p.dir, "link.yaml")), os.Mkdir(filepath.Join(p.dir, "dir.yaml"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		field, name string
		size        int
		status      int
		want        string
		file        string // that is there then, "" for none
	}{
		{"file", "x.yaml", 10, http.StatusOK, "Task definition uploaded : x.yaml\n", "x.yaml"},
		{"file", "x.yaml", 1 << 20, http.StatusOK, "Task definition uploaded : x.yaml\n", "x.yaml"},
		{"file", "/etc/cron.d/y.yml", 10, http.StatusOK, "Task definition uploaded : y.yml\n", "y.yml"},
		{"file", "link.yaml", 10, http.StatusOK, "Task definition uploaded : link.yaml\n", "link.yaml"},
		{"file", "dir.yaml", 10, http.StatusInternalServerError, "ERROR : store dir.yaml in the user directory: ", ""},
		{"file", "big.yaml", 1<<20 + 1, http.StatusBadRequest, "ERROR : big.yaml has more than 1048576 bytes", ""},
		{"file", "vast.yaml", 3 << 20, http.StatusBadRequest, "ERROR : ", ""},
		{"file", "swci-init", 10, http.StatusBadRequest, `ERROR : file name "swci-init" is not taken`, ""},
		{"file", "..", 10, http.StatusBadRequest, "ERROR : file name", ""},
		{"file", ".x.yaml", 10, http.StatusBadRequest, "ERROR : file name", ""},
		{"file", "a b.yaml", 10, http.StatusBadRequest, "ERROR : file name", ""},
		{"file", strings.Repeat("x", 200) + ".yaml", 10, http.StatusBadRequest, "ERROR : file name", ""},
		{"data", "z.yaml", 10, http.StatusBadRequest, "ERROR : the form has no field named file", ""},
	} {
		data := bytes.Repeat([]byte("x"), tt.size)
		body, kind := form(t, tt.field, tt.name, data)
		status, said := p.do(c, http.MethodPost, "/uploadTaskDef", body, "Content-Type", kind)
		if status != tt.status || !strings.HasPrefix(said, tt.want) {
			t.Errorf("%.40s: status %d, want %d: %s", tt.name, status, tt.status, said)
		}
		if got, err := os.ReadFile(filepath.Join(p.dir, tt.file)); tt.file != "" && !bytes.Equal(got, data) {
			t.Errorf("%s has %d bytes (%v), want %d", tt.file, len(got), err, tt.size)
		}
	}
	if got, err := os.ReadFile(outside); string(got) != "kept" {
		t.Errorf("what a link named was written: %q, %v", got, err)
	}
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{"dir.yaml", "link.yaml", "x.yaml", "y.yml"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if status, said := p.do(c, http.MethodPost, "/uploadTaskDef", strings.NewReader("x"), "Content-Type", "text/plain"); status != http.StatusBadRequest {
		t.Errorf("no form: %d %s", status, said)
	}
}

func TestUploadWithoutDirectory(t *testing.T) {
	p := serve(t, nil, true)
	body, kind := form(t, "file", "x.yaml", nil)
	status, said := p.do(p.operator(), http.MethodPost, "/uploadTaskDef", body, "Content-Type", kind)
	if want := "ERROR : this SWCI has no user directory: start it with --usr-dir\n"; status != http.StatusConflict || said != want {
		t.Errorf("status %d: %s", status, said)
	}
}

func FuzzUpload(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x.yaml\"\r\n\r\ndata\r\n--b--\r\n"))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"..\\\\x.yaml\"\r\n\r\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/uploadTaskDef", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		name, data, err := web.FormFile(r)
		if err == nil && (name != filepath.Base(name) || filepath.Ext(name) == "" || name[0] == '.' || len(data) > 1<<20) {
			t.Errorf("file %q of %d bytes is taken", name, len(data))
		}
	})
}
