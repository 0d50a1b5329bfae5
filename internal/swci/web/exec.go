package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxCommand bounds a command in bytes.
	maxCommand = 64 << 10
	// maxIgnored bounds the body of a request that needs none.
	maxIgnored = 64 << 10
	errorMark  = "ERROR "
)

// answer is what /exec answers. The name is the original's.
type answer struct {
	Content []string `json:"CONTENT"`
}

// errTooLong ends a command that takes longer than any should.
var errTooLong = errors.New("the command took too long and was ended")

// exec runs the command of a request.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	line, err := command(r.URL)
	if err != nil {
		turnAway(w, http.StatusBadRequest, err.Error())
		return
	}
	// Only when the body has been read is the end of the connection seen.
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxIgnored)); err != nil {
		turnAway(w, http.StatusRequestEntityTooLarge, "the body of the request can't be read, or is too long")
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // an error means no connection to stall
	elements := s.run(r, line)
	_ = control.SetWriteDeadline(time.Now().Add(bodyTime))
	data, err := json.Marshal(answer{elements})
	if err != nil {
		turnAway(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(data, '\n')) // an error: the client has gone
}

// run executes a command. It ends with the client's connection.
func (s *Server) run(r *http.Request, line string) (elements []string) {
	ctx, cancel := context.WithTimeoutCause(r.Context(), s.cfg.Longest+spareTime, errTooLong)
	defer cancel()
	client, begun := s.client(r), time.Now()
	lines, err := s.cfg.Runner.Do(ctx, client, line)
	s.count(func(c *Counts) *uint64 {
		if err != nil {
			return &c.Failed
		}
		return &c.Done
	})
	s.cfg.Log.Info("command", "client", client, "command", s.cfg.Runner.Subject(line), "failed", err != nil, "took", time.Since(begun).Round(time.Millisecond))
	return content(lines, err != nil)
}

// command returns the one command that a request's URL has.
func command(u *url.URL) (string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", fmt.Errorf("read query: %w", err)
	}
	switch line := strings.TrimSpace(query.Get("cmd")); {
	case len(query["cmd"]) != 1 || line == "":
		return "", errors.New("a request has one command: /exec?cmd=COMMAND")
	case len(line) > maxCommand:
		return "", fmt.Errorf("a command has at most %d bytes", maxCommand)
	case strings.ContainsAny(line, "\n\r"):
		return "", errors.New("a command is one line")
	default:
		return line, nil
	}
}

// content makes of the lines of an answer its elements. An error is one element with all its lines, and no other element reads like one.
// There is always one: the original's client takes an answer without any for a failure.
func content(lines []string, failed bool) []string {
	mark := len(lines)
	for i := len(lines) - 1; failed && i >= 0 && mark == len(lines); i-- {
		if strings.HasPrefix(lines[i], errorMark) {
			mark = i
		}
	}
	elements := make([]string, 0, mark+1)
	for _, line := range lines[:mark] {
		if strings.HasPrefix(line, errorMark) {
			line = " " + line
		}
		elements = append(elements, line)
	}
	if mark < len(lines) {
		elements = append(elements, strings.Join(lines[mark:], "\n"))
	}
	if len(elements) == 0 {
		elements = []string{""}
	}
	return elements
}
