package dashboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// policy lets the page load and ask this server alone, and nobody put it into a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// handler lets in who may see the swarm.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/doc/{name...}", s.document)
	mux.HandleFunc("GET /api/key", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }) // it is good: who has none is not let in
	mux.HandleFunc("GET /api/stream", s.stream)
	mux.HandleFunc("GET /api/logs/{name...}", s.logs)
	mux.HandleFunc("GET /api/model/{name}", s.model)
	mux.HandleFunc("POST /api/act", s.act)
	mux.Handle("GET /", s.page())
	inside := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime + askTime)) // an error means no connection to stall
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		browser, page := s.whoAsks(r)
		switch {
		case page:
			proves(r.Context(), secret)
		case browser:
			proves(r.Context(), cookie)
		}
		switch {
		case !s.isHost(r.Host):
			sendWords(w, http.StatusMisdirectedRequest, "This is another address", "The dashboard is not called what the browser asked for. Open the address that swarmctl dashboard printed.")
		case r.URL.Path == "/" && r.URL.Query().Has("token") && r.Method == http.MethodGet:
			s.enter(w, r)
		case !page && strings.HasPrefix(r.URL.Path, "/api/"):
			what := "browser"
			if browser {
				what = "page"
			}
			sendJSON(w, http.StatusUnauthorized, Acted{Error: "this " + what + " was not let in", Remedy: "open the address that swarmctl dashboard printed last"})
		case !browser:
			sendWords(w, http.StatusUnauthorized, "This browser was not let in", "Open the address that swarmctl dashboard printed last, in its terminal. If it was started anew, the earlier address is good no more.")
		default:
			inside.ServeHTTP(w, r)
		}
	})
}

// isHost reports whether a browser means this server: a name of somebody else that leads here is refused.
func (s *Server) isHost(host string) bool {
	if slices.Contains(s.cfg.Hosts, strings.ToLower(host)) {
		return true
	}
	if s.cfg.Certificate == nil || s.cfg.Certificate.Leaf == nil {
		return false
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return s.cfg.Certificate.Leaf.VerifyHostname(name) == nil
}

// cookie is the name of the session's cookie. Cookies are a host's, whatever the port: two dashboards are not to take each other's.
func (s *Server) cookie() string {
	_, port, _ := net.SplitHostPort(s.cfg.Hosts[0])
	return "swarm-dashboard-" + port
}

// keyHeader has the key of a page. That a request has it also says that it is of the page itself: no other site may send it.
const keyHeader = "X-Swarm-Page"

// whoAsks reports whether a request is of a browser that was let in, and whether it is of the page there.
func (s *Server) whoAsks(r *http.Request) (browser, page bool) {
	c, err := r.Cookie(s.cookie())
	if err != nil {
		return false, false
	}
	return s.doors.knows(c.Value, r.Header.Get(keyHeader))
}

// enter lets a browser in that has a token, once. The page finds its key behind the #, which browsers send to nobody.
func (s *Server) enter(w http.ResponseWriter, r *http.Request) {
	entered, key, used := s.doors.enter(r.URL.Query().Get("token"))
	inside, _ := s.whoAsks(r)
	switch {
	case entered != "":
		proves(r.Context(), secret)
		http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: entered, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.cfg.Certificate != nil})
		http.Redirect(w, r, "/#key="+key, http.StatusSeeOther)
	case inside:
		http.Redirect(w, r, "/", http.StatusSeeOther)
	case used:
		sendWords(w, http.StatusForbidden, "This address was used before", "Each address lets one browser in, once. swarmctl dashboard has printed another one in its terminal: open that.")
	default:
		sendWords(w, http.StatusForbidden, "This address is good no more", "It is of a dashboard that was ended, or was cut short. Open the address that swarmctl dashboard printed last.")
	}
}

// page serves the files of the page.
func (s *Server) page() http.Handler {
	if _, err := fs.Stat(s.cfg.Page, "index.html"); err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			sendWords(w, http.StatusNotFound, "This swarmctl has no page", "It was built without the files that make web makes. Its documents are there: /api/doc/swarm is one.")
		})
	}
	files := http.FileServerFS(s.cfg.Page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, err := fs.Stat(s.cfg.Page, strings.TrimPrefix(r.URL.Path, "/")); r.URL.Path != "/" && (err != nil || info.IsDir() || strings.HasSuffix(r.URL.Path, ".md")) {
			sendWords(w, http.StatusNotFound, "Nothing is here", "Go back to the dashboard: /")
			return
		}
		files.ServeHTTP(w, r)
	})
}

// document answers with one document.
func (s *Server) document(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	kind := s.kindOf(name)
	if !kind.There {
		sendJSON(w, http.StatusNotFound, Acted{Error: fmt.Sprintf("there is no document %.80q", name), Remedy: "swarm, nodes, contracts, contract/NAME and others are"})
		return
	}
	asked, err := withPoints(r, name)
	if err != nil {
		sendJSON(w, http.StatusBadRequest, Acted{Error: err.Error(), Remedy: "leave it out, or give points=500"})
		return
	}
	if kind.Slow {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime + slowTime)) // an error means no connection to stall
	}
	doc, _ := s.hub.question(r.Context(), asked)
	doc.Name = name
	sendJSON(w, http.StatusOK, doc)
}

func (s *Server) kindOf(name string) Kind {
	if len(name) > maxName || name != text.Line(name) || strings.Contains(name, "?") {
		return Kind{}
	}
	return s.cfg.Documents.Kind(name)
}

// act has something done.
func (s *Server) act(w http.ResponseWriter, r *http.Request) {
	var a Act
	switch err := readAct(w, r, &a); {
	case !s.cfg.Actions:
		sendJSON(w, http.StatusForbidden, Acted{Error: "this dashboard only shows", Remedy: "start it with --actions, or use swarmctl approve task"})
		return
	case err != nil:
		sendJSON(w, http.StatusBadRequest, Acted{Error: "what is to be done can't be read: " + text.Line(err.Error()), Remedy: "reload the page"})
		return
	}
	said, err := s.cfg.Documents.Act(r.Context(), a)
	if err != nil {
		sendJSON(w, http.StatusOK, Acted{Error: text.Line(err.Error()), Remedy: text.Line(exit.Hint(err))})
		return
	}
	s.hub.refresh()
	sendJSON(w, http.StatusOK, Acted{Said: text.Line(said)})
}

func readAct(w http.ResponseWriter, r *http.Request, a *Act) error {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTime)) // an error means no connection to stall
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(a); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // else what is asked for ends with it, perhaps when it is done
	return nil
}

// sendJSON answers with JSON.
func sendJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"the answer is no JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data) // who has gone needs no answer
}

var wordsPage = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title></head>
<body><main><h1>{{.Title}}</h1><p>{{.Text}}</p></main></body></html>
`))

// sendWords answers with a page of words.
func sendWords(w http.ResponseWriter, status int, title, said string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = wordsPage.Execute(w, struct{ Title, Text string }{title, said}) // who has gone needs no answer
}
