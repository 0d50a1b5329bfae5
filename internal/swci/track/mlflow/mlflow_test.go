package mlflow_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/track/mlflow"
)

// answering returns a client of a server that answers each call with a status and a body.
func answering(t *testing.T, status int, body string) *mlflow.Client {
	t.Helper()
	return served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://elsewhere.example/")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // a client that goes away is what some tests are about
	})
}

func served(t *testing.T, h http.HandlerFunc) *mlflow.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := mlflow.New(mlflow.Config{URI: s.URL, Username: "ada", Password: "secret", Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestAnswers: whatever a server answers, the user reads one line, with what to do, and the exit code says whether to try again.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status int
		body   string
		code   int
		want   string
	}{
		{200, `{"experiment":{"experiment_id":"7","lifecycle_stage":"active"}}`, exit.OK, ""},
		{200, `{"experiment":{"experiment_id":"7","lifecycle_stage":"deleted"}}`, exit.Conflict, `experiment "study" of MLflow at .* is deleted: restore it (mlflow experiments restore -x 7)`},
		{200, `<html>`, exit.Failed, "is no MLflow server that can be used: its answer is no JSON"},
		{200, `{}`, exit.Failed, "it knows no experiments"},
		{200, `"` + strings.Repeat("x", 17<<20) + `"`, exit.Failed, "more than 16 MiB"},
		{302, ``, exit.Failed, "it sends on to https://elsewhere.example/: give the URI"},
		{401, `{}`, exit.Denied, "does not know who asks: set MLFLOW_TRACKING_TOKEN"},
		{403, `Permission denied`, exit.Denied, "does not let this user do that"},
		{404, `<html>not here</html>`, exit.Failed, "it answers 404 Not Found: give the URI"},
		{404, `{"error_code":"ENDPOINT_NOT_FOUND","message":"no \u001b[31m such"}`, exit.Failed, "refuses: no  such"},
		{429, `slow down`, exit.Unreachable, "answers 429 Too Many Requests: wait"},
		{500, `{"error_code":"INTERNAL_ERROR","message":"disk is full"}`, exit.Unreachable, "answers 500 Internal Server Error: disk is full"},
		{503, ``, exit.Unreachable, "answers 503"},
	} {
		_, err := answering(t, row.status, row.body).Experiment(t.Context(), "study")
		said := fmt.Sprint(err)
		if err != nil {
			said += ": " + exit.Hint(err)
		}
		before, after, _ := strings.Cut(row.want, ".*")
		if exit.Code(err) != row.code || !strings.Contains(said, before) || !strings.Contains(said, after) || len(said) > 700 || strings.Contains(said, "\n") {
			t.Errorf("%d %.60s: exit code %d, %.700s; want %d, %s", row.status, row.body, exit.Code(err), said, row.code, row.want)
		}
	}
}

// TestUnreachable servers: none, one that hangs up within its answer.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	broken := served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"exp`) // cut off here
	})
	gone, err := mlflow.New(mlflow.Config{URI: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*mlflow.Client{broken, gone} {
		if _, err := c.Experiment(t.Context(), "study"); exit.Code(err) != exit.Unreachable || exit.Hint(err) == "" {
			t.Errorf("%v, exit code %d", err, exit.Code(err))
		}
	}
}

// TestURIs: only addresses of servers are taken, and no password is ever repeated.
func TestURIs(t *testing.T) {
	t.Parallel()
	for uri, good := range map[string]bool{
		"http://127.0.0.1:5000": true, "https://mlflow.example/team/": true, "http://[::1]:5000": true,
		"": false, "./mlruns": false, "databricks": false, "file:///tmp/mlruns": false, "http://": false, "http://ada:hunter2@h": false, "http://h:hunter2": false, "http://h/#/experiments/1": false, "sqlite:///db": false,
	} {
		_, err := mlflow.New(mlflow.Config{URI: uri})
		if (err == nil) != good || err != nil && (exit.Code(err) != exit.Usage || exit.Hint(err) == "" || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: %v", uri, err)
		}
	}
}

// TestWhoAsks is told by a header.
func TestWhoAsks(t *testing.T) {
	t.Parallel()
	said := ""
	h := func(w http.ResponseWriter, r *http.Request) {
		said = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{"experiment":{"experiment_id":"7"}}`)
	}
	if _, err := served(t, h).Experiment(t.Context(), "x"); err != nil || said != "Basic YWRhOnNlY3JldA==" {
		t.Errorf("%v %q", err, said)
	}
	s := httptest.NewServer(http.HandlerFunc(h))
	t.Cleanup(s.Close)
	c, err := mlflow.New(mlflow.Config{URI: s.URL, Token: "t", Username: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if _, err := c.Experiment(t.Context(), "x"); err != nil || said != "Bearer t" {
		t.Errorf("%v %q", err, said)
	}
}

// TestLogDivides holds that a call has what a server takes, in order, and that nothing is asked for nothing.
func TestLogDivides(t *testing.T) {
	t.Parallel()
	type call struct {
		Metrics      []struct{ Step int }
		Params, Tags []mlflow.Entry
	}
	var calls []call
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		var one call
		if err := json.NewDecoder(r.Body).Decode(&one); err != nil {
			t.Error(err)
		}
		calls = append(calls, one)
		_, _ = io.WriteString(w, `{}`)
	})
	var metrics []mlflow.Metric
	for i := range 2500 {
		metrics = append(metrics, mlflow.Metric{Key: "loss", Step: uint64(i)})
	}
	many := make([]mlflow.Entry, 150)
	for i := range many {
		many[i] = mlflow.Entry{Key: fmt.Sprint(i), Value: strings.Repeat("ä", 3000)}
	}
	if err := c.Log(t.Context(), "r", metrics, many, many[:1]); err != nil {
		t.Fatal(err)
	}
	var got [][3]int
	next := 0
	for _, one := range calls {
		got = append(got, [3]int{len(one.Metrics), len(one.Params), len(one.Tags)})
		for _, m := range one.Metrics {
			if m.Step != next {
				t.Fatalf("step %d where %d is due", m.Step, next)
			}
			next++
		}
		for _, p := range one.Params {
			if len(p.Value) > 250 {
				t.Errorf("a parameter of %d bytes", len(p.Value))
			}
		}
	}
	if diff := cmp.Diff(got, [][3]int{{1000, 0, 0}, {1000, 0, 0}, {500, 100, 1}, {0, 50, 0}}); diff != "" {
		t.Error(diff)
	}
	calls = nil
	if err := c.Log(t.Context(), "r", nil, nil, nil); err != nil || len(calls) != 0 {
		t.Errorf("%v, %d calls", err, len(calls))
	}
}

// TestSearch reads pages, and numbers in both forms.
func TestSearch(t *testing.T) {
	t.Parallel()
	var filters []string
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Filter string
			Page   string `json:"page_token"`
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			t.Error(err)
		}
		filters = append(filters, ask.Filter+" "+ask.Page)
		run := `{"info":{"run_id":"r%s","status":"RUNNING"},"data":{"metrics":[{"key":"loss","value":"NaN","step":%s,"timestamp":1}],"params":[{"key":"run","value":"1"}],"tags":[{"key":"swarmd.node","value":"sl-0"}]}}`
		if ask.Page == "" {
			fmt.Fprintf(w, `{"runs":[`+run+`],"next_page_token":"p2"}`, "1", "12")
		} else {
			fmt.Fprintf(w, `{"runs":[`+run+`]}`, "2", `"13"`)
		}
	})
	got, err := c.Search(t.Context(), "7", []mlflow.Entry{{Key: "swarmd.run", Value: "1"}, {Key: "swarmd.contract", Value: "c"}}, mlflow.Running)
	want := []mlflow.Run{
		{ID: "r1", Status: "RUNNING", Steps: map[string]uint64{"loss": 12}, Params: map[string]bool{"run": true}, Tags: map[string]string{"swarmd.node": "sl-0"}},
		{ID: "r2", Status: "RUNNING", Steps: map[string]uint64{"loss": 13}, Params: map[string]bool{"run": true}, Tags: map[string]string{"swarmd.node": "sl-0"}},
	}
	if diff := cmp.Diff(got, want); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if diff := cmp.Diff(filters, []string{"attributes.status = 'RUNNING' and tags.`swarmd.run` = '1' and tags.`swarmd.contract` = 'c' ", "attributes.status = 'RUNNING' and tags.`swarmd.run` = '1' and tags.`swarmd.contract` = 'c' p2"}); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Search(t.Context(), "7", []mlflow.Entry{{Key: "x", Value: "' or 1=1"}}, ""); err == nil {
		t.Error("a quote in a tag is asked for")
	}
}
