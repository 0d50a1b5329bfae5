package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// maxLogs is how many logs are followed at a time, by all pages: a browser has six connections to a server without TLS, and pages need some.
	maxLogs = 4
	// logWait is how long one more waits: a page that turns to another log may come before it is seen to have left the first.
	logWait = time.Second
	// maxLines bounds the lines of one event.
	maxLines = 200
)

// LogOf names a log that a page follows.
type LogOf struct {
	Name   string // of a node, or of a job
	Host   string // of a job's member
	Member string // the member, as GROUP/RANK
}

// LogLine is a line of a log.
type LogLine struct {
	Host string `json:"host" doc:"node that has handed it out"`
	From string `json:"from" doc:"what has printed it, as its host says: an SL, or a job's member as GROUP/RANK; empty: the node itself"`
	Text string `json:"text" doc:"as it was printed: it may have control characters"`
}

// logs tells a page the last lines of a log and those that follow, until the page goes or the log ends.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	of := LogOf{Name: r.PathValue("name"), Host: q.Get("host"), Member: q.Get("member")}
	for _, name := range []string{of.Name, of.Host, of.Member} {
		if len(name) > maxName || name != text.Line(name) {
			sendJSON(w, http.StatusBadRequest, Acted{Error: fmt.Sprintf("nothing is called %.80q", name), Remedy: "reload the page"})
			return
		}
	}
	select {
	case s.following <- struct{}{}:
		defer func() { <-s.following }()
	case <-r.Context().Done():
		return // the page has gone, or the dashboard ends
	case <-time.After(logWait):
		sendJSON(w, http.StatusServiceUnavailable, Acted{Error: fmt.Sprintf("%d logs are followed already", maxLogs), Remedy: "stop following one, on this page or another"})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := events{w: w, to: http.NewResponseController(w)}
	out.write(": asked\n\n")
	ctx, stop := context.WithCancel(r.Context())
	lines, ended := make(chan LogLine, maxLines), make(chan error, 1)
	go func() {
		ended <- s.cfg.Documents.Logs(ctx, of, func(l LogLine) {
			select {
			case lines <- l:
			case <-ctx.Done():
			}
		})
	}()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for out.err == nil {
		select {
		case <-beat.C:
			out.write(": still here\n\n")
		case l := <-lines:
			out.event("lines", bundle(l, lines))
		case err := <-ended:
			stop()
			for len(lines) > 0 {
				out.event("lines", bundle(<-lines, lines))
			}
			out.event("end", s.endOfLog(r.Context(), err)) // it is written to nobody if the page has gone
			return
		}
	}
	stop()
	_ = <-ended // the page has gone
}

// bundle is a line with those that have come behind it.
func bundle(first LogLine, lines <-chan LogLine) []LogLine {
	all := []LogLine{first}
	for len(lines) > 0 && len(all) < maxLines {
		all = append(all, <-lines)
	}
	return all
}

// endOfLog says why no more lines come.
func (s *Server) endOfLog(ctx context.Context, err error) Acted {
	switch {
	case ctx.Err() != nil:
		return Acted{Error: s.cfg.Ended.Problem, Remedy: s.cfg.Ended.Remedy}
	case err != nil:
		return Acted{Error: text.Line(err.Error()), Remedy: text.Line(exit.Hint(err))}
	}
	return Acted{Said: "nothing else will be printed there"}
}
