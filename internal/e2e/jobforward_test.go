package e2e_test

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// forwarded is where a port of this machine that a forward printed leads to a member.
var forwarded = regexp.MustCompile(`a page there: (http://127\.0\.0\.1:\d+)`)

// forward has a port of this machine lead to a member's, and returns that port's page.
func (w *swarm) forward(job, member string) (p *e2etest.Proc, page string) {
	w.T.Helper()
	p = e2etest.Start(w.T, "forward "+job, w.Dir, nil, "swarmctl", "forward", job, member, "--listen", "127.0.0.1:0", "--sn", w.Addr(1)+":30304", "--identity", "embedded="+w.Path("ca"))
	p.Sees("a page there: ")
	return p, forwarded.FindStringSubmatch(p.Output())[1]
}

// pageOf is what a page says.
func (w *swarm) pageOf(url string) string {
	w.T.Helper()
	req, err := http.NewRequestWithContext(w.T.Context(), http.MethodGet, url, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// reachesDask looks at the page of a Dask cluster that is there for others, which ends with the job.
func (w *swarm) reachesDask() {
	w.T.Helper()
	file := w.Path("cluster.yaml")
	if err := os.WriteFile(file, []byte("name: cluster\nframework: dask\nreplicas: 2\ngrace: 1s\nends: {ttl: 1h}\n"), 0o600); err != nil {
		w.T.Fatal(err)
	}
	w.says(0, "run job "+file, "job cluster is assigned to swop-1 swop-2 swop-3")
	w.Until("Dask to be ready", func() bool {
		_, out := w.swarmctl("get", "job", "status", "cluster")
		return strings.Count(out, "ready  yes") == 3
	})
	w.says(6, "forward cluster swop-2/worker/1:8787", "no process of this member listens to port 8787") // all hosts are this machine, where the scheduler does
	w.says(5, "forward cluster worker/0:8787", "of rank 0 is swop-1/scheduler/0")
	p, page := w.forward("cluster", "scheduler/0:8787")
	if got := w.pageOf(page + "/json/counts.json"); !strings.Contains(got, `"workers": 2`) {
		w.T.Errorf("the scheduler's page: %s", got)
	}
	w.says(0, "cancel job cluster")
	if code := p.Exits(); code == 0 || !strings.Contains(p.Output(), "the member has ended") {
		w.T.Errorf("forward after the job: exit code %d\n%s", code, p.Output())
	}
}
