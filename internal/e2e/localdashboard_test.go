package e2e_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestLocalRunDashboard: the page beside a local run verifies a model by signatures, without an option, and learns that the run has ended and where its results
// are.
func TestLocalRunDashboard(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := e2etest.Swarm{T: t, Dir: t.TempDir()}
	w.CopyProgram(w.Path("model"))
	run := e2etest.Start(t, "local", w.Dir, []string{"XDG_RUNTIME_DIR=" + w.Dir, "XDG_STATE_HOME=" + w.Dir}, "swarmctl", "local", "run", "--peers", "2", "--python", e2etest.Python,
		"--model-dir", w.Path("model"), "--model-program", "train.py", "-e", "BATCHES=100", "-e", "BATCH_SECONDS=0.1", "--out", w.Path("out"), "--dashboard")
	run.Sees("lets one browser in, once")
	page := enter(t, regexp.MustCompile(`dashboard: (http\S+)`).FindStringSubmatch(run.Output())[1])
	events := page.ask("api/stream?watch=swarm")
	defer func() { _ = events.Close() }()
	w.Until("a model that was verified with its signatures", func() bool {
		return strings.Contains(page.read("api/doc/proof/e2e/1"), `"state":"verified"`)
	})
	run.Ends(time.Minute)
	told, last := bufio.NewScanner(events), ""
	for told.Scan() {
		if strings.HasPrefix(told.Text(), "data: ") {
			last = told.Text()
		}
	}
	if !strings.Contains(last, `"state":"ended"`) || !strings.Contains(last, w.Path("out", "report.html")) {
		t.Errorf("the page was told last: %s", last)
	}
}

// browsing is a browser on a dashboard's page.
type browsing struct {
	t         *testing.T
	c         http.Client
	base, key string
}

// enter opens a dashboard's address.
func enter(t *testing.T, address string) *browsing {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browsing{t: t, c: http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	t.Cleanup(b.c.CloseIdleConnections)
	b.base, _, _ = strings.Cut(address, "?")
	res, err := b.c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	_, b.key, _ = strings.Cut(res.Header.Get("Location"), "/#key=")
	return b
}

// ask is the body of an answer, which the caller closes.
func (b *browsing) ask(path string) io.ReadCloser {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.base+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("X-Swarm-Page", b.key)
	res, err := b.c.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.Body
}

func (b *browsing) read(path string) string {
	b.t.Helper()
	body := b.ask(path)
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}
