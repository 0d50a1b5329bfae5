package dashboard

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	// maxFetched is how many models are fetched at a time, by all pages.
	maxFetched = 2
	// beginTime is how long it may take until a holder gives the first byte of one.
	beginTime = 2 * time.Minute
)

// ModelOf names a model that a page fetches.
type ModelOf struct {
	Contract string
	Round    uint64
	Digest   string // as the page has shown it
}

// model gives a page a model as a file. What goes wrong before the first byte is said; after that the connection is cut, so that what has come
// is not taken for a file.
func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	of := ModelOf{Contract: r.PathValue("name"), Digest: q.Get("digest")}
	var err error
	if of.Round, err = strconv.ParseUint(q.Get("round"), 10, 64); err != nil || len(of.Contract) > maxName || of.Contract != text.Line(of.Contract) || len(of.Digest) > maxName || !text.Visible(of.Digest) {
		sendJSON(w, http.StatusBadRequest, Acted{Error: "no model is called so", Remedy: "reload the page"})
		return
	}
	if s.cfg.Fetch == nil {
		sendJSON(w, http.StatusNotFound, Acted{Error: "models are given out on loopback addresses alone, as they are fetched in the name of whoever has started the dashboard", Remedy: "swarmctl get model " + of.Contract + " fetches it in yours"})
		return
	}
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	default:
		sendJSON(w, http.StatusServiceUnavailable, Acted{Error: fmt.Sprintf("%d models are fetched already", maxFetched), Remedy: "wait until one has come, or use swarmctl get model"})
		return
	}
	out := download{w: w, to: http.NewResponseController(w)}
	_ = out.to.SetWriteDeadline(time.Now().Add(writeTime + beginTime)) // an error means no connection to stall
	err = s.cfg.Fetch(r.Context(), of, out.begin)
	switch {
	case err == nil && out.begun:
		err = out.end()
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err == nil:
	case out.begun:
		panic(http.ErrAbortHandler) // the connection is cut, and nothing logged
	default:
		sendJSON(w, http.StatusBadGateway, Acted{Error: text.Line(err.Error()), Remedy: text.Line(exit.Hint(err))})
	}
}

// download is a file on its way to a page. Its last byte is held back until the file is known to be good.
type download struct {
	w     http.ResponseWriter
	to    *http.ResponseController
	begun bool
	last  []byte
}

// begin says what the file is called, and how many bytes it has.
func (d *download) begin(name string, size int64) io.Writer {
	d.begun = true
	h := d.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	d.w.WriteHeader(http.StatusOK)
	_ = d.to.Flush() // so that a page which is cut off knows that it had begun; an error means that it has gone
	return d
}

// Write implements io.Writer.
func (d *download) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	_ = d.to.SetWriteDeadline(time.Now().Add(writeTime)) // an error means no connection to stall
	for _, part := range [][]byte{d.last, p[:len(p)-1]} {
		if _, err := d.w.Write(part); err != nil {
			return 0, err
		}
	}
	d.last = append(d.last[:0], p[len(p)-1])
	return len(p), nil
}

// end lets the last byte go.
func (d *download) end() error {
	_, err := d.w.Write(d.last)
	return err
}
