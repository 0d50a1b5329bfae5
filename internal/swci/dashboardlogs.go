package swci

import (
	"context"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/hostlogs"
	"github.com/swarmd/swarmd/internal/text"
)

// lastLines is how many lines a log begins with that a page follows, as with `get logs`.
const lastLines = 100

// Logs implements dashboard.Documents: a log as `get logs -f` reads it, of one node, or of one member of a job's last run.
func (d *documents) Logs(ctx context.Context, of dashboard.LogOf, line func(dashboard.LogLine)) error {
	name := text.Line(of.Name)
	if _, err := d.Link(); err != nil {
		return err
	}
	found, _, err := hostlogs.Named(ctx, d.api, of.Name, "")
	if err != nil {
		return fmt.Errorf("get logs %s: %w", name, documentError(err))
	}
	if of.Host != "" {
		found = slices.DeleteFunc(found, func(l hostlogs.Log) bool { return l.Node.GetName() != of.Host })
	}
	switch hint := "reload the page, or use: swarmctl get logs " + name + " -f"; {
	case len(found) == 0:
		return exit.New(exit.NotFound, hint, "get logs %s: nothing of it is on %s now", name, text.Line(of.Host))
	case len(found) > 1:
		return exit.New(exit.Usage, hint, "get logs %s: a page follows one host, and it is on several", name)
	}
	named := namesOf(ctx, d.api, found[0].Assignment)
	q := hostlogs.Query{Tail: lastLines, Follow: true, At: atSN(&d.session, nil), Around: func(string, error) {}}
	failed := q.Read(ctx, d.api, found, func(l hostlogs.Line) {
		if l = named(l); of.Member == "" || of.Member == l.From {
			line(dashboard.LogLine(l))
		}
	})
	if len(failed) > 0 {
		return fmt.Errorf("get logs %s: %w", name, documentError(failed[0]))
	}
	return nil
}
