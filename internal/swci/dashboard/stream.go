package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// heartbeat is how often a page is told that the dashboard is there.
const heartbeat = 10 * time.Second

// stream tells a page of what it shows, until it goes: each document once, then whenever it changes.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) {
	names, err := s.watched(r)
	if err != nil {
		sendJSON(w, http.StatusBadRequest, Acted{Error: err.Error(), Remedy: "reload the page"})
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		sendJSON(w, http.StatusServiceUnavailable, Acted{Error: fmt.Sprintf("%d pages are open already", maxStreams), Remedy: "close some"})
		return
	}
	page, leave := s.hub.join(names)
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	out := events{w: w, to: http.NewResponseController(w)}
	out.write("retry: 2000\n\n")
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	has := map[string]reached{}
	for out.err == nil {
		select {
		case <-r.Context().Done():
			out.event("link", s.ended()) // it is written to nobody if the page has gone
			return
		case <-beat.C:
			out.write(": still here\n\n")
		case <-page.notify:
			link, docs := s.hub.news(page)
			if link != nil {
				out.event("link", link)
			}
			for _, d := range docs {
				d.Name = withoutPoints(d.Name)
				d, has[d.Name] = d.told(has[d.Name])
				out.event("doc", d)
			}
		}
	}
}

// ended is the last that pages are told.
func (s *Server) ended() Link {
	l := s.cfg.Ended
	l.State, l.Since = "ended", s.cfg.Now().UTC().Format(time.RFC3339)
	return l
}

// watched are the documents that a page asks for.
func (s *Server) watched(r *http.Request) (names []string, err error) {
	for name := range strings.SplitSeq(r.URL.Query().Get("watch"), ",") {
		switch kind := s.kindOf(name); {
		case !kind.There:
			return nil, fmt.Errorf("there is no document %.80q", name)
		case kind.OnDemand:
			return nil, fmt.Errorf("%.80q is made when it is asked for, and no stream has it", name)
		}
		if name, err = withPoints(r, name); err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > maxWatched {
		return nil, fmt.Errorf("%d documents are asked for, and %d are the most", len(names), maxWatched)
	}
	return names, nil
}

// events writes server-sent events, until one could not be.
type events struct {
	w   http.ResponseWriter
	to  *http.ResponseController
	err error
}

func (e *events) event(kind string, v any) {
	data, err := json.Marshal(v) // in one line
	if err != nil {
		e.err = err
		return
	}
	e.write("event: " + kind + "\ndata: " + string(data) + "\n\n")
}

func (e *events) write(lines string) {
	if e.err != nil {
		return
	}
	_ = e.to.SetWriteDeadline(time.Now().Add(writeTime)) // an error means no connection to stall
	if _, e.err = e.w.Write([]byte(lines)); e.err == nil {
		e.err = e.to.Flush()
	}
}
