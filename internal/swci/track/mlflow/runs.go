package mlflow

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// What a server takes in one call, by MLflow's documentation of log-batch, and what older servers take of a parameter.
const (
	maxMetrics = 1000
	maxEntries = 100 // parameters, and tags likewise
	maxParam   = 250 // bytes
	maxTag     = 5000
)

// Status is how a run stands.
type Status string

// The statuses of runs.
const (
	Running  Status = "RUNNING"
	Finished Status = "FINISHED"
	Failed   Status = "FAILED"
	Killed   Status = "KILLED"
)

// Entry is a parameter or a tag.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Metric is a value at a step.
type Metric struct {
	Key   string  `json:"key"`
	Value float64 `json:"value"` // finite
	AtMS  int64   `json:"timestamp"`
	Step  uint64  `json:"step"`
}

// Run is what is read of a run.
type Run struct {
	ID     string
	Status Status
	Steps  map[string]uint64 // the last one, by metric
	Params map[string]bool   // those that it has
	Tags   map[string]string
}

// Find returns the ID of an experiment; empty: there is none.
func (c *Client) Find(ctx context.Context, name string) (id string, err error) {
	var got struct {
		Experiment struct {
			ID    string `json:"experiment_id"`
			Stage string `json:"lifecycle_stage"`
		} `json:"experiment"`
	}
	err = c.call(ctx, "experiments/get-by-name", url.Values{"experiment_name": {name}}, &got)
	switch at := got.Experiment; {
	case is(err, "RESOURCE_DOES_NOT_EXIST"):
		return "", nil
	case err != nil:
		return "", err
	case at.Stage == "deleted":
		return "", exit.New(exit.Conflict, "restore it (mlflow experiments restore -x "+text.Line(at.ID)+"), or name another one with --experiment", "experiment %q of %s is deleted", name, c)
	case at.ID == "":
		return "", c.stranger("it knows no experiments")
	default:
		return at.ID, nil
	}
}

// Experiment returns the ID of an experiment, which is made if there is none.
func (c *Client) Experiment(ctx context.Context, name string) (id string, err error) {
	for range 2 {
		if id, err = c.Find(ctx, name); err != nil || id != "" {
			return id, err
		}
		var made struct {
			ID string `json:"experiment_id"`
		}
		err = c.call(ctx, "experiments/create", map[string]string{"name": name}, &made)
		switch {
		case err == nil && made.ID != "":
			return made.ID, nil
		case err == nil:
			return "", c.stranger("it makes an experiment without an ID")
		case !is(err, "RESOURCE_ALREADY_EXISTS"): // else somebody else has made it just now
			return "", err
		}
	}
	return "", err
}

// Limits of what is read of an experiment.
const (
	pageRuns = 200
	maxRuns  = 20_000
)

// Search returns the runs of an experiment that have these tags and a status, oldest first; an empty status is any.
func (c *Client) Search(ctx context.Context, experiment string, tags []Entry, status Status) (runs []Run, err error) {
	var where []string
	if status != "" {
		where = append(where, fmt.Sprintf("attributes.status = '%s'", status))
	}
	for _, t := range tags {
		if strings.ContainsAny(t.Value, `'"\`) {
			return nil, fmt.Errorf("tag %s can't be looked for: %q", t.Key, t.Value)
		}
		where = append(where, fmt.Sprintf("tags.`%s` = '%s'", t.Key, t.Value))
	}
	ask := map[string]any{
		"experiment_ids": []string{experiment}, "filter": strings.Join(where, " and "), "run_view_type": "ACTIVE_ONLY", "max_results": pageRuns, "order_by": []string{"attributes.start_time ASC"},
	}
	for len(runs) < maxRuns {
		var got struct {
			Runs []foundRun `json:"runs"`
			Next string     `json:"next_page_token"`
		}
		if err := c.call(ctx, "runs/search", ask, &got); err != nil {
			return nil, err
		}
		for i := range got.Runs {
			runs = append(runs, got.Runs[i].run())
		}
		if got.Next == "" || len(got.Runs) == 0 {
			return runs, nil
		}
		ask["page_token"] = got.Next
	}
	return nil, exit.New(exit.Failed, "name an experiment of its own with --experiment", "%s has more than %d runs of this training", c, maxRuns)
}

// foundRun is a run as servers show it.
type foundRun struct {
	Info struct {
		ID     string `json:"run_id"`
		Status Status `json:"status"`
	} `json:"info"`
	Data struct {
		Metrics []struct {
			Key  string `json:"key"`
			Step number `json:"step"`
		} `json:"metrics"`
		Params []Entry `json:"params"`
		Tags   []Entry `json:"tags"`
	} `json:"data"`
}

func (f *foundRun) run() Run {
	out := Run{ID: f.Info.ID, Status: f.Info.Status, Steps: map[string]uint64{}, Params: map[string]bool{}, Tags: map[string]string{}}
	for _, m := range f.Data.Metrics {
		if m.Step > 0 {
			out.Steps[m.Key] = max(out.Steps[m.Key], uint64(m.Step))
		}
	}
	for _, p := range f.Data.Params {
		out.Params[p.Key] = true
	}
	for _, t := range f.Data.Tags {
		out.Tags[t.Key] = t.Value
	}
	return out
}

// Create makes a run that runs, and returns its ID.
func (c *Client) Create(ctx context.Context, experiment, name string, startMS int64, tags []Entry) (id string, err error) {
	var made struct {
		Run foundRun `json:"run"`
	}
	// Servers before 2.0 take the name from the tag.
	in := map[string]any{"experiment_id": experiment, "run_name": name, "start_time": startMS, "tags": withShortValues(append(slices.Clone(tags), Entry{"mlflow.runName", name}), maxTag)}
	if err := c.call(ctx, "runs/create", in, &made); err != nil {
		return "", err
	}
	if made.Run.Info.ID == "" {
		return "", c.stranger("it makes a run without an ID")
	}
	return made.Run.Info.ID, nil
}

// Log writes metrics in their order, then tags and parameters, in as few calls as a server takes. Where it fails the first ones of them
// may have been written.
func (c *Client) Log(ctx context.Context, run string, metrics []Metric, params, tags []Entry) error {
	params, tags = withShortValues(params, maxParam), withShortValues(tags, maxTag)
	for first := true; first || len(metrics)+len(params)+len(tags) > 0; first = false {
		in := map[string]any{"run_id": run}
		var part []Metric
		if part, metrics = leading(metrics, maxMetrics); len(part) > 0 {
			in["metrics"] = part
		}
		if len(metrics) == 0 {
			room := maxMetrics - len(part)
			var some []Entry
			if some, params = leading(params, min(maxEntries, room)); len(some) > 0 {
				in["params"] = some
			}
			if some, tags = leading(tags, min(maxEntries, room-len(some))); len(some) > 0 {
				in["tags"] = some
			}
		}
		if len(in) == 1 {
			return nil
		}
		if err := c.call(ctx, "runs/log-batch", in, nil); err != nil {
			return err
		}
	}
	return nil
}

// leading returns the first n of all, and the rest.
func leading[T any](all []T, n int) (some, rest []T) {
	n = max(0, min(n, len(all)))
	return all[:n], all[n:]
}

// withShortValues returns entries with values of so many bytes at most.
func withShortValues(all []Entry, limit int) (out []Entry) {
	for _, e := range all {
		out = append(out, Entry{e.Key, text.Clip(e.Value, limit)})
	}
	return out
}

// Update says how a run stands, and when it ended; 0: it has not.
func (c *Client) Update(ctx context.Context, run string, status Status, endMS int64) error {
	in := map[string]any{"run_id": run, "status": status}
	if endMS > 0 {
		in["end_time"] = endMS
	}
	return c.call(ctx, "runs/update", in, nil)
}
