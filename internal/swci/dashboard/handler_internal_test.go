package dashboard

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestNoRuleForOtherPorts: what a server demands by Strict-Transport-Security browsers hold against all servers of its host, whatever their port.
func TestNoRuleForOtherPorts(t *testing.T) {
	s := New(Config{Documents: &counted{}, Hosts: []string{"h.example:30309"}, Certificate: &tls.Certificate{}, Now: time.Now})
	for _, path := range []string{"/", "/?token=x", "/api/doc/nodes"} {
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://h.example:30309"+path, http.NoBody))
		if head := w.Result().Header; head.Get("Strict-Transport-Security") != "" || head.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %v", path, head)
		}
	}
}
